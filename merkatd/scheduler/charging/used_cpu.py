"""The charge for used CPU: the spending rate of a VM's group for each core used for a period.

This follows section 3.2 of the paper on proportional shares, instead of a price of allocations. A
decision stores each VM's CPU counter and its rate. The charge computes the use from the difference
to the counter on the host at that time.
"""

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from merkatd.cluster import ACTIVE, Bools, Floats, Ints, VmState
from merkatd.cluster.columns import is_one_of, values_of
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.charging import held_memory
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.observation.running_time import CLOCK_STEP_S, RestartedCounters, Starts

CPU = 0


@dataclass(frozen=True, slots=True, eq=False)
class CpuCounters:
    """The CPU counters of VMs at one time, in core-seconds; rows ascend by VM id."""

    vm: Ints
    cpu_s: Floats

    def of(self, wanted: Ints) -> Floats:
        """[wanted]: the counters of these VMs, NaN for unknown ones."""
        counters: Floats = values_of(self.vm, self.cpu_s, wanted, np.nan)
        return counters


NOTHING_COMPUTED = CpuCounters(np.zeros(0, dtype=np.int64), np.zeros(0))
"""No known counters."""


_NEARLY = 0.99
"""A tolerance for counters, because records have whole seconds."""


@dataclass(frozen=True, slots=True)
class NewlyLimited:
    """New guests that got limits since the previous period."""

    core_s: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """By VM id: the counters of new guests when they got their limits, in their order."""
    looked: AbstractSet[int] = frozenset()
    """Hosts that were checked every few seconds for new guests, and answered each time."""
    gap_s: Mapping[int, float] = field(default_factory=dict)
    """By host: the longest time between two checks. No guest ran for longer without being seen."""
    replaced: Mapping[int, int] = field(default_factory=dict)
    """By VM id: how often its domain was found with another id than before, on the same host."""
    age_s: Mapping[int, float] = field(default_factory=dict)
    """By id of these VMs: how long ago the present domain was found."""


NOTHING_LIMITED = NewlyLimited()
"""No host was checked, or the results are no longer known."""


def longest_s(limited: NewlyLimited, host: int, most_s: float) -> float:
    """Return the longest time for which a guest on this host can have run unseen.

    It is `most_s` if the host did not answer.
    """
    return limited.gap_s.get(host, math.inf) if host in limited.looked else most_s


def most_cores(observed: Observed) -> float:
    """Return the number of cores of the largest host."""
    capacity = observed.snapshot.hosts.capacity[:, CPU]
    return float(capacity.max() / UNITS_PER_CORE) if len(capacity) else 0.0


def is_charged_by_use(markets: Sequence[MarketRules], market: Ints) -> Bools:
    """[vms]: whether the VM is in a market that charges for use."""
    by_use: Bools = np.array([*(market.by_use for market in markets), False])[market]
    return by_use


def full_rates(observed: Observed) -> Floats:
    """[vms]: the whole spending rate of each VM's group, as far as it can be paid.

    A VM without a group counts as a group of its own.
    """
    spread = [
        observed.rates[vm].nvm if vm in observed.rates else 1
        for vm in observed.snapshot.vms.id.tolist()
    ]
    rates: Floats = observed.snapshot.vms.bid[:, CPU] * np.array(spread, dtype=np.float64)
    return rates


def charged_rates(observed: Observed, markets: Sequence[MarketRules]) -> Floats:
    """[vms]: credits for each core used for a period; NaN if use is not charged."""
    charged = is_charged_by_use(markets, observed.snapshot.vms.market)
    rates: Floats = np.where(charged, full_rates(observed), np.nan)
    return rates


def columns_for_charge(
    observed: Observed, markets: Sequence[MarketRules], last: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """Return the columns that a period stores for its charge, if any market charges for use.

    If a VM's counter can't be read now, the counter of the `last` period is kept, with its time in
    `read_s`. The use since then is charged once the counter is read, or once the VM has ended. A
    guest that is about to boot has the counter 0.
    """
    if not any(market.by_use for market in markets):
        return {}
    vms = observed.snapshot.vms
    cpu_s = CpuCounters(observed.use.vm_id, observed.use.cpu_s).of(vms.id)
    read_s = np.full(len(vms), observed.observation.at_s)
    if last is not None and "cpu_s" in last:
        records = observed.observation.records
        if records is not None and "read_s" in last:
            # The counter of a guest that started after the last period was never read.
            unread = np.isnan(cpu_s) & is_one_of(vms.state, ACTIVE)
            unread &= records.ran_from_s >= np.floor(last["read_s"].max(initial=-math.inf))
            read_s = np.where(unread, np.fmin(records.ran_from_s, read_s), read_s)
        rows = _rows_before(observed, last)
        carried = np.isnan(cpu_s) & (rows >= 0)
        cpu_s[carried] = last["cpu_s"][rows[carried]]
        if "read_s" in last:
            read_s[carried] = last["read_s"][rows[carried]]
    boots = (vms.state == VmState.BUSY) & ~vms.stays
    return {
        "rate": charged_rates(observed, markets),
        "cpu_s": np.where(np.isnan(cpu_s) & boots, 0.0, cpu_s),
        "read_s": read_s,
    }


def _rows_before(observed: Observed, last: Mapping[str, Any]) -> Ints:
    """[vms]: the rows in the last period of guests that have run ever since; else -1.

    Those still have the same history record.
    """
    rows_before = np.full(len(observed.snapshot.vms), -1)
    records = observed.observation.records
    if records is None or "record" not in last:
        return rows_before
    records_now = np.column_stack([records.seq, records.ran_from_s])
    running = is_one_of(observed.snapshot.vms.state, ACTIVE)
    last_rows = {vm: row for row, vm in enumerate(last["vm"].tolist()) if last["runs"][row]}
    for row in np.flatnonzero(running).tolist():
        last_row = last_rows.get(int(observed.snapshot.vms.id[row]))
        if last_row is not None and (last["record"][last_row, :2] == records_now[row]).all():
            rows_before[row] = last_row
    return rows_before


def core_periods(
    arrays: Mapping[str, Any],
    rows: Ints,
    now: CpuCounters,
    elapsed: Floats,
    interval_s: float,
    over: Bools | None = None,
    anew: RestartedCounters | None = None,
    cores_of_host: float = math.inf,
    unread_s: Floats | None = None,
    limited: NewlyLimited = NOTHING_LIMITED,
    missing: Bools | None = None,
) -> Floats:
    """[rows]: the cores that each VM used for a period, or for `elapsed` periods.

    `arrays` were stored at the decision. `over` marks VMs that no longer run. `anew`, [all VMs],
    describes restarts according to the records. `unread_s` is the age of the counter at the
    decision.

    A counter that went back was reset, by a migration or a restart. The use before a restart by the
    owner can't be read any more, so the VM is charged for its share. Before a migration it is
    charged for the same rate of use as after it, at most its share. A running VM's use that could
    not be read is charged later. But if the guest is `missing` on a host that answers, and was not
    read at the decision either, its share is charged: an owner could let its guest be replaced at
    each observation. Records need not show a restart: see Note [Domains that are replaced] in
    `unlimited_time.py`.

    The counter of a VM that no longer runs can't be read. It is charged for its share, or for all
    its virtual CPUs if it has no decided share, and for the `unread_s` too. No VM is charged for
    more than all its virtual CPUs. A VM that restarted in this time may have had more of them, so
    its bound is `cores_of_host`, the cores of the largest host.
    """
    before, after = arrays["cpu_s"][rows], now.of(arrays["vm"][rows])
    time_s = elapsed * interval_s + (0.0 if unread_s is None else unread_s)
    began = ~arrays["runs"][rows] if "runs" in arrays else np.zeros(len(rows), dtype=bool)
    # The counter of a guest that started in this time began at zero.
    used = np.where((np.isnan(before) & began) | (after < before), after, after - before)
    if anew is not None:
        share = _share(arrays, rows)
        began_anew = anew.before_s[rows] > 0
        since_s = anew.since_s[rows]
        going_on = np.divide(after, since_s, out=np.full(len(rows), np.inf), where=since_s > 0)
        cores = np.where(anew.moved[rows], np.fmin(going_on, share), share)
        used = np.where(began_anew, after + anew.before_s[rows] * cores, used)
        lost_s = _lost_s(arrays, rows, time_s, after < before, anew, limited)
        if lost_s.any():
            least = after + lost_s * _cores(arrays, rows)
            used = np.where(lost_s > 0, np.fmax(used, least), used)
    if missing is not None and unread_s is not None and missing.any():
        hides = missing & np.isnan(after) & (unread_s > 0)
        used = np.where(hides, _cores(arrays, rows) * elapsed * interval_s, used)
    if over is not None and over.any():
        cores = _cores(arrays, rows)
        used = np.where(np.isnan(after) & over, cores * time_s, used)
    if anew is not None:
        began = began | (anew.before_s[rows] > 0)
    cores = np.where(began, np.fmax(cores_of_host, arrays["vcpus"][rows]), arrays["vcpus"][rows])
    most = cores * time_s
    seconds: Floats = np.clip(np.nan_to_num(used), 0.0, most) / interval_s
    return seconds


def _lost_s(
    arrays: Mapping[str, Any],
    rows: Ints,
    time_s: Floats,
    went_back: Bools,
    anew: RestartedCounters,
    limited: NewlyLimited,
) -> Floats:
    """[rows]: the running time before the present domain of a VM whose domain was replaced.

    Records show some restarts; their times are exact to a look and to the clocks' difference.
    """
    ages = (limited.age_s.get(vm, math.nan) for vm in arrays["vm"][rows].tolist())
    age_s = np.fromiter(ages, dtype=np.float64, count=len(rows))
    recorded = anew.before_s[rows] > 0
    hosts = arrays["host"][rows].tolist() if "host" in arrays else []
    slack_s = np.full(len(rows), CLOCK_STEP_S)
    slack_s[: len(hosts)] += [limited.gap_s.get(host, 0.0) for host in hosts]
    earlier_s = time_s - age_s - np.where(recorded, slack_s, 0.0)
    earlier_s = np.where(np.isnan(age_s) & went_back & ~recorded, time_s, earlier_s)
    lost_s: Floats = np.where(anew.moved[rows], 0.0, np.maximum(np.nan_to_num(earlier_s), 0.0))
    return lost_s


def seconds_beyond_shares(
    arrays: Mapping[str, Any],
    starts_of_row: Mapping[int, Starts],
    now: CpuCounters,
    limited: NewlyLimited,
    most_s: float,
    cores_of_host: float = math.inf,
    replaced_s: Mapping[int, float] | None = None,
) -> Floats:
    """[vms]: the core-seconds that guests used beyond their shares after a start.

    A new guest has no limits until the daemon finds it. Its CPU counter gives its use: the value
    `now`, or the value when it was `limited`. A guest that was never seen had no limits. It is
    charged for all its virtual CPUs for its running time, or for `most_s` if its host did not
    answer. A VM that was resized meanwhile may have had more virtual CPUs than at the decision, up
    to `cores_of_host`.

    `replaced_s`, by row, is the time without limits of domains that were replaced without a record.
    They are charged by the counters that were seen. The VMs of owners that start guests `often` are
    charged for all virtual CPUs for that time, and after each start: the counter may be that of a
    later domain.
    """
    total = np.zeros(len(arrays["vm"]))
    rows = np.array(list(starts_of_row), dtype=np.int64)
    shares = _cores(arrays, rows).tolist()
    counters = now.of(arrays["vm"][rows]).tolist()
    hosts = (arrays["host"][rows] if "host" in arrays else np.full(len(rows), -1)).tolist()
    for row, share, counter, host in zip(rows.tolist(), shares, counters, hosts, strict=True):
        last_s, earlier_s, resized = starts_of_row[row]
        vcpus = float(arrays["vcpus"][row])
        vcpus = max(vcpus, cores_of_host) if resized else vcpus
        room = max(vcpus - share, 0.0)
        often = _is_often(arrays, row)
        longest = longest_s(limited, host, most_s)
        seen = [] if often else list(limited.core_s.get(int(arrays["vm"][row]), ()))
        if last_s > 0:
            if seen and last_s > most_s:
                seen.pop()
            unknown = room * min(last_s, most_s)
            used = unknown if math.isnan(counter) else counter - share * last_s
            least = room * min(last_s, longest) if often else 0.0
            total[row] = min(max(used, least), room * last_s)
        unseen_s = _unseen_s(earlier_s, seen, vcpus)
        known = [max(seconds - share * most_s, 0.0) for seconds in seen]
        total[row] += sum(known[: len(earlier_s)]) + room * sum(min(s, longest) for s in unseen_s)
    for row, seconds in (replaced_s or {}).items():
        vm, share = int(arrays["vm"][row]), float(_cores(arrays, np.array([row]))[0])
        most = seconds * max(float(arrays["vcpus"][row]) - share, 0.0)
        often = _is_often(arrays, row)
        total[row] += most if often else min(most, _seen_s(vm, now, limited))
    return total


def _is_often(arrays: Mapping[str, Any], row: int) -> bool:
    return "often" in arrays and bool(arrays["often"][row])


def _seen_s(vm: int, now: CpuCounters, limited: NewlyLimited) -> float:
    """Return the core-seconds that a VM's new guests used until they were found."""
    core_s = sum(limited.core_s.get(vm, ()))
    if limited.age_s.get(vm) == 0.0:  # the present guest was found at the observation
        core_s += float(np.nan_to_num(now.of(np.array([vm])))[0])
    return core_s


def _unseen_s(ran_s: Sequence[float], seen: Sequence[float], vcpus: float) -> list[float]:
    """Return the running times of the guests that were not seen.

    An owner can choose which of its guests are seen. So each seen counter is matched with the
    shortest running time in which a guest can have used that many core-seconds.
    """
    left = sorted(ran_s)
    for core_s in sorted(seen):
        at = next(
            (row for row, seconds in enumerate(left) if seconds * vcpus >= core_s * _NEARLY), -1
        )
        if left:
            left.pop(at)
    return left


def _cores(arrays: Mapping[str, Any], rows: Ints) -> Floats:
    """[rows]: each VM's share, or all its virtual CPUs if use is charged and it was off."""
    share = _share(arrays, rows)
    if "rate" not in arrays or "rests" not in arrays:
        return share
    undecided = arrays["rests"][rows] & np.isfinite(arrays["rate"][rows])
    cores: Floats = np.where(undecided, arrays["vcpus"][rows], share)
    return cores


def _share(arrays: Mapping[str, Any], rows: Ints) -> Floats:
    """[rows]: each VM's share in cores."""
    share: Floats = held_memory.amounts_given(arrays)[rows, CPU] / UNITS_PER_CORE
    return share


def units(used: Floats, elapsed: Floats) -> Floats:
    """Convert core-periods to percent of a core over each VM's running time."""
    percent = used * UNITS_PER_CORE
    rates: Floats = np.divide(percent, elapsed, out=np.zeros_like(used), where=elapsed > 0)
    return rates
