"""Charging for use: the spending rate of a VM's group for each core that it used for a period.

So the paper on proportional shares has it (section 3.2), instead of a price of what is given.
When a period decides, it keeps how long each VM had computed and at what rate; when it is
charged, the difference to what the hosts say then is what was used.
"""

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, VmState
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.charging import held_memory
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.observation.running_time import RestartedCounters, Starts

CPU = 0


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """How long VMs had computed at some time, in core-seconds; rows ascend by VM id."""

    vm: Ints
    cpu_s: Floats

    def of(self, wanted: Ints) -> Floats:
        """[wanted]: NaN for those that are not known."""
        if not len(self.vm):
            return np.full(len(wanted), np.nan)
        rows = np.minimum(np.searchsorted(self.vm, wanted), len(self.vm) - 1)
        return np.where(self.vm[rows] == wanted, self.cpu_s[rows], np.nan)


NOTHING_COMPUTED = Computed(np.zeros(0, dtype=np.int64), np.zeros(0))
"""No VM's counter is known."""


_NEARLY = 0.99
"""Of what a counter says: records have whole seconds."""


@dataclass(frozen=True, slots=True)
class Limited:
    """New guests that were limited since the period before."""

    core_s: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """By VM id: how long each new guest had computed when it got its limits, in their order."""
    looked: AbstractSet[int] = frozenset()
    """Hosts that were asked every few seconds for new guests, and answered each time."""
    gap_s: Mapping[int, float] = field(default_factory=dict)
    """By host: the longest time in which it was not asked. No guest ran for longer unseen."""


NOTHING_LIMITED = Limited()
"""No host was asked, or what was found is not known any more."""


def longest_s(limited: Limited, host: int, most_s: float) -> float:
    """For how long a guest can have run on the host without being seen.

    For `most_s` where it did not answer.
    """
    return limited.gap_s.get(host, math.inf) if host in limited.looked else most_s


def is_charged_by_use(markets: Sequence[MarketRules], market: Ints) -> Bools:
    """[vms]: is in a market that charges for use."""
    found: Bools = np.array([*(one.by_use for one in markets), False])[market]
    return found


def full_rates(seen: Observed) -> Floats:
    """[vms]: the whole spending rate of each VM's group, as far as it can be paid.

    A VM without a group is one of its own.
    """
    spread = [seen.rates[vm].nvm if vm in seen.rates else 1 for vm in seen.snapshot.vms.id.tolist()]
    rates: Floats = seen.snapshot.vms.bid[:, CPU] * np.array(spread, dtype=np.float64)
    return rates


def charged_rates(seen: Observed, markets: Sequence[MarketRules]) -> Floats:
    """[vms]: credits for each core that is used for a period; NaN where use is not charged."""
    charged = is_charged_by_use(markets, seen.snapshot.vms.market)
    rates: Floats = np.where(charged, full_rates(seen), np.nan)
    return rates


def columns_for_charge(
    seen: Observed, markets: Sequence[MarketRules], last: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """The columns that a period keeps for its charge, where any market charges for use.

    The counter of a VM that can't be read now is the one that the `last` period kept: what it uses
    meanwhile is charged once it is read, or once it has ended: `read_s` says when it was read. A
    guest that is about to boot has computed nothing.
    """
    if not any(one.by_use for one in markets):
        return {}
    vms = seen.snapshot.vms
    cpu_s = Computed(seen.use.vm_id, seen.use.cpu_s).of(vms.id)
    read_s = np.full(len(vms), seen.observation.at_s)
    if last is not None and "cpu_s" in last:
        records = seen.observation.records
        if records is not None and "read_s" in last:
            # A guest that began since the last period was never read.
            unread = np.isnan(cpu_s) & np.isin(vms.state, (VmState.RUNNING, VmState.BUSY))
            unread &= records.ran_from_s >= np.floor(last["read_s"].max(initial=-math.inf))
            read_s = np.where(unread, np.fmin(records.ran_from_s, read_s), read_s)
        rows = _rows_before(seen, last)
        carried = np.isnan(cpu_s) & (rows >= 0)
        cpu_s[carried] = last["cpu_s"][rows[carried]]
        if "read_s" in last:
            read_s[carried] = last["read_s"][rows[carried]]
    boots = (vms.state == VmState.BUSY) & ~vms.stays
    return {
        "rate": charged_rates(seen, markets),
        "cpu_s": np.where(np.isnan(cpu_s) & boots, 0.0, cpu_s),
        "read_s": read_s,
    }


def _rows_before(seen: Observed, last: Mapping[str, Any]) -> Ints:
    """[vms]: the rows that guests had in the last period, if they have run ever since; else -1.

    Those have the history record that they had then.
    """
    found = np.full(len(seen.snapshot.vms), -1)
    records = seen.observation.records
    if records is None or "record" not in last:
        return found
    now = np.column_stack([records.seq, records.ran_from_s])
    runs = np.isin(seen.snapshot.vms.state, (VmState.RUNNING, VmState.BUSY))
    before = {vm: row for row, vm in enumerate(last["vm"].tolist()) if last["runs"][row]}
    for row in np.flatnonzero(runs).tolist():
        at = before.get(int(seen.snapshot.vms.id[row]))
        if at is not None and (last["record"][at, :2] == now[row]).all():
            found[row] = at
    return found


def core_periods(
    arrays: Mapping[str, Any],
    rows: Ints,
    now: Computed,
    elapsed: Floats,
    interval_s: float,
    over: Bools | None = None,
    anew: RestartedCounters | None = None,
    most_cores: float = math.inf,
    unread_s: Floats | None = None,
) -> Floats:
    """[rows]: the cores that each VM used for a period, or as many periods as have `elapsed`.

    `arrays` were kept when it decided; `over` marks VMs that run no more. A counter that went back
    began anew, as it does where a VM was migrated or started again. `anew` is [all VMs]: what
    records say of that. Before its owner started it again a VM used its share, for nobody can read
    that any more; before it was migrated it used as much as after that, its share at most. What of
    a VM that goes on could not be read is used later. The counter of a VM that runs no more can't
    be read: it used its share, or all its virtual CPUs where none was decided for it, also for the
    `unread_s` for which it had not been read when the period decided. More than
    all its virtual CPUs a VM can't have used; one that began in this time may have had more of
    them than before, and no more than the `most_cores` of a host.
    """
    before, after = arrays["cpu_s"][rows], now.of(arrays["vm"][rows])
    time_s = elapsed * interval_s + (0.0 if unread_s is None else unread_s)
    began = ~arrays["runs"][rows] if "runs" in arrays else np.zeros(len(rows), dtype=bool)
    # A guest that started in this time counts from nothing.
    used = np.where((np.isnan(before) & began) | (after < before), after, after - before)
    if anew is not None:
        share = _share(arrays, rows)
        began_anew = anew.before_s[rows] > 0
        since_s = anew.since_s[rows]
        going_on = np.divide(after, since_s, out=np.full(len(rows), np.inf), where=since_s > 0)
        cores = np.where(anew.moved[rows], np.fmin(going_on, share), share)
        used = np.where(began_anew, after + anew.before_s[rows] * cores, used)
    if over is not None and over.any():
        cores = _cores(arrays, rows)
        used = np.where(np.isnan(after) & over, cores * time_s, used)
    if anew is not None:
        began = began | (anew.before_s[rows] > 0)
    cores = np.where(began, np.fmax(most_cores, arrays["vcpus"][rows]), arrays["vcpus"][rows])
    most = cores * time_s
    found: Floats = np.clip(np.nan_to_num(used), 0.0, most) / interval_s
    return found


def beyond(
    arrays: Mapping[str, Any],
    found: Mapping[int, Starts],
    now: Computed,
    limited: Limited,
    most_s: float,
) -> Floats:
    """[vms]: core-seconds that guests used beyond their shares after they were started.

    A new guest has no limits until the daemon finds it. Its counter of CPU says what it used: the
    one that it has `now`, or had when it was `limited`. A guest that nobody saw had no limits: it
    used all its virtual CPUs as long as it ran, or for `most_s` where its host did not answer.
    """
    total = np.zeros(len(arrays["vm"]))
    rows = np.array(list(found), dtype=np.int64)
    shares = _cores(arrays, rows).tolist()
    counters = now.of(arrays["vm"][rows]).tolist()
    hosts = (arrays["host"][rows] if "host" in arrays else np.full(len(rows), -1)).tolist()
    for row, share, counter, host in zip(rows.tolist(), shares, counters, hosts, strict=True):
        last_s, earlier_s = found[row]
        room = max(float(arrays["vcpus"][row]) - share, 0.0)
        seen = list(limited.core_s.get(int(arrays["vm"][row]), ()))
        if last_s > 0:
            if seen and last_s > most_s:
                seen.pop()
            unknown = room * min(last_s, most_s)
            used = unknown if math.isnan(counter) else counter - share * last_s
            total[row] = min(max(used, 0.0), room * last_s)
        unseen_s = _unseen_s(earlier_s, seen, float(arrays["vcpus"][row]))
        known = [max(one - share * most_s, 0.0) for one in seen]
        longest = longest_s(limited, host, most_s)
        total[row] += sum(known[: len(earlier_s)]) + room * sum(min(s, longest) for s in unseen_s)
    return total


def _unseen_s(ran_s: Sequence[float], seen: Sequence[float], vcpus: float) -> list[float]:
    """Return for how long those of an owner's guests ran that were not seen.

    An owner can choose which of its guests are seen. So each that was seen is taken for the one
    that ran for the shortest time in which it can have computed so many core-seconds.
    """
    left = sorted(ran_s)
    for core_s in sorted(seen):
        at = next((row for row, one in enumerate(left) if one * vcpus >= core_s * _NEARLY), -1)
        if left:
            left.pop(at)
    return left


def _cores(arrays: Mapping[str, Any], rows: Ints) -> Floats:
    """[rows]: the share of each; where use is charged all virtual CPUs of a VM that was off."""
    share = _share(arrays, rows)
    if "rate" not in arrays or "rests" not in arrays:
        return share
    undecided = arrays["rests"][rows] & np.isfinite(arrays["rate"][rows])
    found: Floats = np.where(undecided, arrays["vcpus"][rows], share)
    return found


def _share(arrays: Mapping[str, Any], rows: Ints) -> Floats:
    """[rows]: the cores that each VM was given."""
    share: Floats = held_memory.amounts_given(arrays)[rows, CPU] / UNITS_PER_CORE
    return share


def units(used: Floats, elapsed: Floats) -> Floats:
    """The same as percent of a core over the time that each VM ran."""
    whole = used * UNITS_PER_CORE
    found: Floats = np.divide(whole, elapsed, out=np.zeros_like(used), where=elapsed > 0)
    return found
