"""How long each VM of a period is charged for, from the records that OpenNebula keeps."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import Bools, Floats, HostState, Ints, VmState
from merkatd.database.base.transactions import LostRaceError
from merkatd.database.scheduler import period_store, price_store
from merkatd.database.scheduler.period_store import PeriodRow
from merkatd.scheduler.base.ports import Histories, Observation
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
    seconds_run,
    starts,
    was_moving,
)

_HIDDEN_OF_AN_OWNER = 5
"""So many of an owner's VMs with texts that are too long are asked for their histories in a period;
the others count as running all the time."""


async def read_histories(world: PeriodContext, seen: Observed) -> Histories:
    """Read all records of the VMs whose last record does not say for how long they ran."""
    if seen.observation.records is None:
        return {}
    since_s, vms = await world.database.read(lambda c: _wanted_histories(c, world, seen))
    return await world.cloud.histories(vms, since_s)


def _wanted_histories(
    connection: sa.Connection, world: PeriodContext, seen: Observed
) -> tuple[float, list[int]]:
    """Since when, and of which VMs, histories are needed."""
    due = period_store.to_charge(connection, seen.period)
    vms: set[int] = set()
    now = look_of(seen.observation, _runs(seen.observation))
    for period in reversed(due):
        arrays = _kept(connection, period.number)
        before = look_back(arrays, period.observed_s)
        if arrays is not None and before is not None and now is not None:
            concerned = in_a_market(arrays, world.markets) & _could_run(arrays)
            hidden = before.vm[are_hidden(before, now)]
            vms.update(_few_of_each(lacking(before, now, concerned), hidden, arrays))
        now = before
    return min((one.observed_s for one in due), default=seen.observation.at_s), sorted(vms)


def _few_of_each(vms: Iterable[int], hidden: Ints, arrays: Mapping[str, Any]) -> Iterator[int]:
    """Yield these VMs, of the hidden ones a few of each owner: their texts are long."""
    rows = {int(arrays["vm"][row]): row for row in np.flatnonzero(np.isin(arrays["vm"], hidden))}
    counts: Counter[int] = Counter()
    for vm in vms:
        if vm in rows:
            owner = int(arrays["owner"][rows[vm]])
            counts[owner] += 1
            if counts[owner] > _HIDDEN_OF_AN_OWNER:
                continue
        yield vm


def _kept(connection: sa.Connection, period: int) -> Mapping[str, Any] | None:
    """Return what a period kept; None where it can't be read, which its charge reports."""
    try:
        return price_store.load_allocations(connection, period)
    except (sa.exc.SQLAlchemyError, LostRaceError):
        raise
    except Exception:  # noqa: BLE001 - whatever is wrong with one period, others go on
        return None


def _could_run(arrays: Mapping[str, Any]) -> Bools:
    """[vms]: was on a host before, placed, or not read: may have run until the next observation."""
    found: Bools = arrays["runs"] | arrays["placed"] | ~never_ran(arrays)
    return found


def columns_of(connection: sa.Connection, newest: int) -> Mapping[str, Any] | None:
    """Return what the newest period kept; None where that is damaged, or not known any more."""
    if newest in {one.number for one in period_store.quarantined(connection)}:
        return None
    return price_store.load_allocations(connection, newest)


def begun_anew_by(
    seen: Observed,
    period: PeriodRow,
    arrays: Mapping[str, Any],
    until: tuple[PeriodRow | None, Mapping[str, Any] | None],
    histories: Histories,
) -> RestartedCounters | None:
    """[vms]: which guests began anew before the later period, or before now; None: not known."""
    before, now = _looks(seen, period, arrays, until)
    return None if before is None or now is None else begun_anew(before, now, histories)


def started(
    seen: Observed,
    period: PeriodRow,
    arrays: Mapping[str, Any],
    until: tuple[PeriodRow | None, Mapping[str, Any] | None],
    histories: Histories,
) -> Mapping[int, Starts]:
    """By row: the starts of VMs before the later period, or before now.

    A VM that ran and is on another host now was moved, and began anew once because of that. So did
    one that was on its way when the period was decided: its host was the new one already.
    """
    before, now = _looks(seen, period, arrays, until)
    if before is None or now is None or "host" not in arrays:
        return {}
    found = starts(before, now, histories)
    if not found:
        return {}
    after = until[1]
    if until[0] is None or after is None or "host" not in after:
        vms, hosts = seen.observation.vm_id, seen.observation.vm_host
    else:
        vms, hosts = after["vm"], after["host"]
    where = dict(zip(vms.tolist(), hosts.tolist(), strict=True))

    def moved(row: int) -> bool:
        host = int(arrays["host"][row])
        vm, ran = int(arrays["vm"][row]), bool(arrays["runs"][row]) and host >= 0
        goes = where.get(vm, host) not in {host, -1} or was_moving(before, histories, vm)
        return ran and goes

    own = {row: _but_one(one) if moved(row) else one for row, one in found.items()}
    return {row: one for row, one in own.items() if one != Starts()}


def _but_one(found: Starts) -> Starts:
    return Starts(found.last_s, found.earlier_s[1:]) if found.earlier_s else Starts()


def _looks(
    seen: Observed,
    period: PeriodRow,
    arrays: Mapping[str, Any],
    until: tuple[PeriodRow | None, Mapping[str, Any] | None],
) -> tuple[Look | None, Look | None]:
    end, after = until
    if end is None:
        now = look_of(seen.observation, _runs(seen.observation))
    else:
        now = look_back(after, end.observed_s)
    return look_back(arrays, period.observed_s), now


@dataclass(frozen=True, slots=True, eq=False)
class Seconds:
    """For how long each VM of a period is charged, [vms]."""

    ran: Floats
    rested: Floats
    """For how long it kept its floor without running."""
    by_good: Floats
    """[vms, resources]: for how long it pays for its part. Note [Paid until the next period]."""

    @property
    def longest(self) -> Floats:
        """For how long it ran, or paid as if it did."""
        found: Floats = np.maximum(self.ran, self.by_good.max(axis=1, initial=0.0))
        return found


def passed_s(
    world: PeriodContext, seen: Observed, period: PeriodRow, end: PeriodRow | None
) -> float:
    """How long a period lasted, up to the later one or up to now; no more than is charged."""
    most_s = world.rhythm.most_periods_charged * world.rhythm.interval_s
    return min(_length_s(seen, period, end), most_s)


def _length_s(seen: Observed, period: PeriodRow, end: PeriodRow | None) -> float:
    until_s = seen.observation.at_s if end is None else end.observed_s
    return max(until_s - period.observed_s, 0.0)


def seconds_charged(
    world: PeriodContext,
    seen: Observed,
    period: PeriodRow,
    arrays: Mapping[str, Any],
    until: tuple[PeriodRow | None, Mapping[str, Any] | None],
    histories: Histories,
) -> Seconds:
    """For how long each VM is charged.

    Up to the later period that is given, or up to now; no more than is charged at once. Until then
    no other VM gets the memory that a stopped VM keeps, so it is charged up to there, also where
    the VM is gone by then.
    """
    end, after = until
    whole_s = _length_s(seen, period, end)
    most_s = world.rhythm.most_periods_charged * world.rhythm.interval_s
    before, now = _looks(seen, period, arrays, until)
    waited = _waited(world, seen, arrays, after)
    if before is not None and now is not None:
        ran = seconds_run(before, now, histories, arrays.get("placed"))
        ran = at_least(ran, world.rhythm.least_charge_s, whole_s)
        sold = ~is_charged_by_use(world.markets, arrays["market"])
        ran = np.where(waited & sold & (ran <= 0), whole_s, ran)
    else:
        both = arrays["runs"] & np.isin(arrays["vm"], running_at_end(seen, after))
        ran = np.where(both, whole_s, 0.0)
    ran, charged_s = np.minimum(ran, most_s), min(whole_s, most_s)
    by_good = seconds_by_good(arrays, seen.observation, ran, charged_s, waited)
    if "rests" not in arrays:
        return Seconds(ran, np.zeros_like(ran), by_good)
    off_s = np.maximum(charged_s - ran, 0.0)
    return Seconds(ran, np.where(arrays["rests"], off_s, 0.0), by_good)


def _waited(
    world: PeriodContext, seen: Observed, arrays: Mapping[str, Any], after: Mapping[str, Any] | None
) -> Bools:
    """[vms]: was placed on a host, and had no guest there up to the end of the period.

    Or was ended by then, or failed on a host that is well. One that its host did not get has no
    part in this, unless OpenNebula carries out deployments itself: the daemon hears of no refusal.
    See Note [VMs without a guest] in `held_memory.py`.
    """
    placed = arrays.get("placed")
    if placed is None or not placed.any():
        return np.zeros(len(arrays["vm"]), dtype=bool)
    look = seen.observation
    if after is not None:
        idle = after["vm"][after["rests"]] if "rests" in after else after["vm"][:0]
        gone = ~np.isin(arrays["vm"], after["vm"])
    else:
        none = _failed(look) if look.vm_idle is None else look.vm_idle | _failed(look)
        if world.handing:
            none = none | (look.vm_state == VmState.PENDING)
        idle = look.vm_id[none]
        gone = ~np.isin(arrays["vm"], look.vm_id)
    had_host = [vm for vm, record in look.ended.items() if record.seq >= 0]
    ended = gone & np.isin(arrays["vm"], had_host)
    found: Bools = placed & (np.isin(arrays["vm"], idle) | ended)
    return found


def _failed(look: Observation) -> Bools:
    """[vms]: failed on its way to a host, or there, where nothing is known to be wrong with it."""
    well = look.host_id[look.host_state != HostState.OFF]
    found: Bools = (look.vm_state == VmState.ABSENT) & np.isin(look.vm_host, well)
    return found


def _runs(seen: Observation) -> Bools:
    """[vms]: runs, or is on its way on a host; not one that has no guest there."""
    moves = np.isin(seen.vm_state, (VmState.RUNNING, VmState.BUSY))
    runs: Bools = moves & (seen.vm_host >= 0)
    return runs if seen.vm_idle is None else runs & ~seen.vm_idle


def running_at_end(seen: Observed, after: Mapping[str, Any] | None) -> Ints:
    """Return the ids of VMs that ran when a period ended: at a later decision, or now."""
    if after is None:
        return running(seen.observation)
    found: Ints = after["vm"][after["runs"]]
    return found


def running(seen: Observation) -> Ints:
    """Return the ids of VMs that run, or are on their way on a host."""
    found: Ints = seen.vm_id[_runs(seen)]
    return found
