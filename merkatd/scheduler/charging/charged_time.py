"""The charged time of each VM in a period, from OpenNebula's history records."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import ACTIVE, Bools, Floats, HostState, Ints, VmState
from merkatd.cluster.columns import is_one_of
from merkatd.database.base.transactions import LostRaceError
from merkatd.database.scheduler import period_store, price_store
from merkatd.database.scheduler.period_store import PeriodRow
from merkatd.scheduler.base.ports import Histories, Observation
from merkatd.scheduler.charging.attached_devices import TimesWithoutLimits, times_without_limits
from merkatd.scheduler.charging.contended_parts import seconds_by_good
from merkatd.scheduler.charging.owed_amounts import in_a_market
from merkatd.scheduler.charging.used_cpu import is_charged_by_use
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.looks import Look, are_hidden, look_back, look_of, never_ran
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.observation.running_time import (
    RestartedCounters,
    Starts,
    at_least,
    begun_anew,
    lacking,
    recorded_starts,
    seconds_run,
    starts,
    was_moving,
)

_HIDDEN_OF_AN_OWNER = 5
"""The number of an owner's VMs with too long texts whose histories are read in a period; the others
count as running all the time."""


async def read_histories(context: PeriodContext, observed: Observed) -> Histories:
    """Read all records of the VMs whose last record does not give their running time."""
    if observed.observation.records is None:
        return {}
    since_s, vms = await context.database.read(lambda c: _wanted_histories(c, context, observed))
    return await context.cloud.histories(vms, since_s)


def _wanted_histories(
    connection: sa.Connection, context: PeriodContext, observed: Observed
) -> tuple[float, list[int]]:
    """Return since when, and for which VMs, histories are needed."""
    due = period_store.to_charge(connection, observed.period)
    vms: set[int] = set()
    now = look_of(observed.observation, _runs(observed.observation))
    for period in reversed(due):
        arrays = _kept(connection, period.number)
        before = look_back(arrays, period.observed_s)
        if arrays is not None and before is not None and now is not None:
            concerned = in_a_market(arrays, context.markets) & _could_run(arrays)
            hidden = before.vm[are_hidden(before, now)]
            vms.update(_few_of_each(lacking(before, now, concerned), hidden, arrays))
        now = before
    return min((period.observed_s for period in due), default=observed.observation.at_s), sorted(
        vms
    )


def _few_of_each(vms: Iterable[int], hidden: Ints, arrays: Mapping[str, Any]) -> Iterator[int]:
    """Yield these VMs, but only a few hidden ones per owner, because their texts are long."""
    rows = {int(arrays["vm"][row]): row for row in np.flatnonzero(is_one_of(arrays["vm"], hidden))}
    counts: Counter[int] = Counter()
    for vm in vms:
        if vm in rows:
            owner = int(arrays["owner"][rows[vm]])
            counts[owner] += 1
            if counts[owner] > _HIDDEN_OF_AN_OWNER:
                continue
        yield vm


def _kept(connection: sa.Connection, period: int) -> Mapping[str, Any] | None:
    """Return the stored columns of a period; None if unreadable, which its charge reports."""
    try:
        return price_store.load_allocations(connection, period)
    except (sa.exc.SQLAlchemyError, LostRaceError):
        raise
    except Exception:  # noqa: BLE001 - an error in one period must not affect the others
        return None


def _could_run(arrays: Mapping[str, Any]) -> Bools:
    """[vms]: whether the VM may have run after the decision: on a host, placed, or not read."""
    concerned: Bools = arrays["runs"] | arrays["placed"] | ~never_ran(arrays)
    return concerned


def columns_of(connection: sa.Connection, newest: int) -> Mapping[str, Any] | None:
    """Return the stored columns of the newest period; None if they are damaged or deleted."""
    if newest in {period.number for period in period_store.quarantined(connection)}:
        return None
    return price_store.load_allocations(connection, newest)


def begun_anew_by(
    observed: Observed,
    period: PeriodRow,
    arrays: Mapping[str, Any],
    until: tuple[PeriodRow | None, Mapping[str, Any] | None],
    histories: Histories,
) -> RestartedCounters | None:
    """[vms]: the guests that restarted before the later period, or before now; None: unknown."""
    before, now = _looks(observed, period, arrays, until)
    return None if before is None or now is None else begun_anew(before, now, histories)


def started(
    observed: Observed,
    period: PeriodRow,
    arrays: Mapping[str, Any],
    until: tuple[PeriodRow | None, Mapping[str, Any] | None],
    histories: Histories,
) -> Mapping[int, Starts]:
    """Return, by row, the starts of VMs before the later period, or before now.

    A migration restarts a guest's record too. So one start is not counted for a running VM that is
    on another host now. The same holds for a VM that was already migrating at the decision, whose
    stored host was its target.
    """
    before, now = _looks(observed, period, arrays, until)
    if before is None or now is None or "host" not in arrays:
        return {}
    starts_of_row = starts(before, now, histories)
    if not starts_of_row:
        return {}
    where = _hosts_after(observed, until)

    def moved(row: int) -> bool:
        host = int(arrays["host"][row])
        vm, ran = int(arrays["vm"][row]), bool(arrays["runs"][row]) and host >= 0
        goes = where.get(vm, host) not in {host, -1} or was_moving(before, histories, vm)
        return ran and goes

    own = {row: _but_one(starts) if moved(row) else starts for row, starts in starts_of_row.items()}
    return {row: starts for row, starts in own.items() if starts != Starts()}


def unrecorded(
    observed: Observed,
    period: PeriodRow,
    arrays: Mapping[str, Any],
    replaced: Mapping[int, int],
) -> Mapping[int, int]:
    """Return, by row, how many domains were replaced until now without a record of a start.

    `replaced` are all replaced domains by VM id.
    """
    if not replaced or "host" not in arrays:
        return {}
    before, now = _looks(observed, period, arrays, (None, None))
    if before is None or now is None:
        return {}
    counts = recorded_starts(before, now, observed.histories)
    rows: list[int] = np.flatnonzero(is_one_of(arrays["vm"], replaced)).tolist()
    without = {row: replaced[int(arrays["vm"][row])] - counts.get(row, 0) for row in rows}
    return {row: count for row, count in without.items() if count > 0}


def attached(
    observed: Observed,
    period: PeriodRow,
    arrays: Mapping[str, Any],
    until: tuple[PeriodRow | None, Mapping[str, Any] | None],
) -> TimesWithoutLimits:
    """Return, by row, how long attached devices had no limits before the later period, or now.

    A migration has a record too. Where only the records' number is known, one new record of a VM
    that is on another host now is its migration.
    """
    before, now = _looks(observed, period, arrays, until)
    if before is None or now is None or "host" not in arrays:
        return {}
    times = times_without_limits(before, now, observed.histories)
    if not times:
        return {}
    where = _hosts_after(observed, until)
    old, new = before.numbers(before.vm), now.numbers(before.vm)

    def only_moved(row: int) -> bool:
        vm, host = int(arrays["vm"][row]), int(arrays["host"][row])
        moved = host >= 0 and where.get(vm, host) not in {host, -1}
        return vm not in observed.histories and moved and bool(new[row] == old[row] + 1)

    return {row: starts for row, starts in times.items() if not only_moved(row)}


def _hosts_after(
    observed: Observed, until: tuple[PeriodRow | None, Mapping[str, Any] | None]
) -> Mapping[int, int]:
    """Return the host of each VM at the later period, or now, by VM id."""
    end, after = until
    if end is None or after is None or "host" not in after:
        vms, hosts = observed.observation.vm_id, observed.observation.vm_host
    else:
        vms, hosts = after["vm"], after["host"]
    return dict(zip(vms.tolist(), hosts.tolist(), strict=True))


def _but_one(begun: Starts) -> Starts:
    return begun._replace(earlier_s=begun.earlier_s[1:]) if begun.earlier_s else Starts()


def _looks(
    observed: Observed,
    period: PeriodRow,
    arrays: Mapping[str, Any],
    until: tuple[PeriodRow | None, Mapping[str, Any] | None],
) -> tuple[Look | None, Look | None]:
    end, after = until
    if end is None:
        now = look_of(observed.observation, _runs(observed.observation))
    else:
        now = look_back(after, end.observed_s)
    return look_back(arrays, period.observed_s), now


@dataclass(frozen=True, slots=True, eq=False)
class Seconds:
    """The charged seconds of each VM in a period, [vms]."""

    ran: Floats
    rested: Floats
    """The time for which the VM had a floor without running."""
    by_good: Floats
    """[vms, resources]: the time for which its share is paid (Note [Paid until the next
    period])."""

    @property
    def longest(self) -> Floats:
        """The longest charged time: the running time, or a longer time of one resource."""
        seconds: Floats = np.maximum(self.ran, self.by_good.max(axis=1, initial=0.0))
        return seconds


def passed_s(
    context: PeriodContext, observed: Observed, period: PeriodRow, end: PeriodRow | None
) -> float:
    """Return the length of a period up to the later one, or to now; limited as a charge is."""
    most_s = context.rhythm.most_periods_charged * context.rhythm.interval_s
    return min(_length_s(observed, period, end), most_s)


def _length_s(observed: Observed, period: PeriodRow, end: PeriodRow | None) -> float:
    until_s = observed.observation.at_s if end is None else end.observed_s
    return max(until_s - period.observed_s, 0.0)


def seconds_charged(
    context: PeriodContext,
    observed: Observed,
    period: PeriodRow,
    arrays: Mapping[str, Any],
    until: tuple[PeriodRow | None, Mapping[str, Any] | None],
    histories: Histories,
) -> Seconds:
    """Return the charged time of each VM.

    It ends at the later period if that is given, or now, and is limited to the longest charged
    time. The memory of a stopped VM is kept from other VMs until then, so it is charged until then,
    even if the VM is gone.
    """
    end, after = until
    whole_s = _length_s(observed, period, end)
    most_s = context.rhythm.most_periods_charged * context.rhythm.interval_s
    before, now = _looks(observed, period, arrays, until)
    waited = _waited(context, observed, arrays, after)
    if before is not None and now is not None:
        ran = seconds_run(before, now, histories, arrays.get("placed"))
        ran = at_least(ran, context.rhythm.least_charge_s, whole_s)
        sold = ~is_charged_by_use(context.markets, arrays["market"])
        ran = np.where(waited & sold & (ran <= 0), whole_s, ran)
    else:
        both = arrays["runs"] & is_one_of(arrays["vm"], running_at_end(observed, after))
        ran = np.where(both, whole_s, 0.0)
    ran, charged_s = np.minimum(ran, most_s), min(whole_s, most_s)
    by_good = seconds_by_good(arrays, observed.observation, ran, charged_s, waited)
    if "rests" not in arrays:
        return Seconds(ran, np.zeros_like(ran), by_good)
    off_s = np.maximum(charged_s - ran, 0.0)
    return Seconds(ran, np.where(arrays["rests"], off_s, 0.0), by_good)


def _waited(
    context: PeriodContext,
    observed: Observed,
    arrays: Mapping[str, Any],
    after: Mapping[str, Any] | None,
) -> Bools:
    """[vms]: whether the VM was placed on a host, but had no guest there during the period.

    This includes VMs that were terminated by then, or failed on a working host. A VM that its host
    did not receive is excluded. But if OpenNebula carries out deployments itself, it is included,
    because the daemon learns of no refusal. See Note [VMs without a guest] in `held_memory.py`.
    """
    placed = arrays.get("placed")
    if placed is None or not placed.any():
        return np.zeros(len(arrays["vm"]), dtype=bool)
    look = observed.observation
    if after is not None:
        idle = after["vm"][after["rests"]] if "rests" in after else after["vm"][:0]
        gone = ~is_one_of(arrays["vm"], after["vm"])
    else:
        none = _failed(look) if look.vm_idle is None else look.vm_idle | _failed(look)
        if context.handing:
            none = none | (look.vm_state == VmState.PENDING)
        idle = look.vm_id[none]
        gone = ~is_one_of(arrays["vm"], look.vm_id)
    had_host = [vm for vm, record in look.ended.items() if record.seq >= 0]
    ended = gone & is_one_of(arrays["vm"], had_host)
    idle_rows: Bools = placed & (is_one_of(arrays["vm"], idle) | ended)
    return idle_rows


def _failed(look: Observation) -> Bools:
    """[vms]: whether the VM failed during deployment or on its host, with no known host failure."""
    well = look.host_id[look.host_state != HostState.OFF]
    failed: Bools = (look.vm_state == VmState.ABSENT) & is_one_of(look.vm_host, well)
    return failed


def _runs(seen: Observation) -> Bools:
    """[vms]: whether the VM runs or is in transition on a host, unless it has no guest there."""
    moves = is_one_of(seen.vm_state, ACTIVE)
    runs: Bools = moves & (seen.vm_host >= 0)
    return runs if seen.vm_idle is None else runs & ~seen.vm_idle


def running_at_end(observed: Observed, after: Mapping[str, Any] | None) -> Ints:
    """Return the ids of VMs that ran at the end of a period: at a later decision, or now."""
    if after is None:
        return running(observed.observation)
    ids: Ints = after["vm"][after["runs"]]
    return ids


def running(seen: Observation) -> Ints:
    """Return the ids of VMs that run, or are in transition on a host."""
    ids: Ints = seen.vm_id[_runs(seen)]
    return ids
