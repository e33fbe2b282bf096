"""Charges for guests without limits: cores, memory, network and disk after a start.

All functions are pure, except for one query of the previous period's prices.

# Note [Network and disk of guests that start]

A guest starts without limits and gets them some seconds later (`guest_watch.py`). Until then it can
use all network and disk of its host. Hosts count cores but not bytes, so the real use is unknown.
For a single start that is accepted. But a VM that is powered off as soon as it is limited, and
resumed at once, had a fifth of a host's network for a five-hundredth of the price.

So starts are counted by owner, for an hour, as they are for memory (Note [Memory of guests that
start] in `guest_starts.py`). A VM's first boot and one more start a day do not count while its
guest runs. If an owner has more than three other starts, its guests pay for each start. They pay
for all that their host has beyond their shares, for the longest possible time without limits, at
the start price. Example: a host has 1,000 Mbit/s at 0.02 credits each; a guest with a share of 1
ran for 12 s and was found within 5 s. It pays for 999 Mbit/s for 5 s: 999 * 0.02 * 5 / 60 = 1.67
credits.

A network card or a disk that is attached to a running guest counts and costs like a start (Note
[Devices without limits] in `attached_devices.py`).

# Note [Domains that are replaced]

Not every new domain has a history record. If an owner reverts a running VM to a snapshot, libvirt
starts a new domain with the limits of the time of the snapshot, and OpenNebula's record goes on.
The same is true of a guest that reboots on Xen. The new domain has another id and a CPU counter of
zero, and it does not have its share's limits until the daemon finds it. A VM that was reverted
every five seconds had all idle cores of its host for a fiftieth of the price. Where use is charged,
a VM that was reverted right before each observation paid a twentieth.

So the guest watch counts the domains that were replaced. Those without a record are charged by
their counters. If their owner had more than three counted starts at the decision, they are charged
with all virtual CPUs for the longest time between two looks, because several domains can have come
and gone in that time. The same holds after a recorded start: the counter that is read may be that
of a domain that replaced the first one. Where use is charged, the running time before the present
domain costs the VM's share, as before a restart.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NO_HOST, is_one_of
from merkatd.database.scheduler import price_store as stored_prices
from merkatd.database.scheduler.period_store import PeriodRow
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.scheduler.base.settings import RESOURCES
from merkatd.scheduler.charging import held_memory
from merkatd.scheduler.charging.attached_devices import TimesWithoutLimits
from merkatd.scheduler.charging.charged_records import ChargeInput
from merkatd.scheduler.charging.charged_span import whole
from merkatd.scheduler.charging.charged_time import attached, started, unrecorded
from merkatd.scheduler.charging.owed_amounts import sold, start_prices
from merkatd.scheduler.charging.used_cpu import (
    CPU,
    NOTHING_COMPUTED,
    NOTHING_LIMITED,
    CpuCounters,
    NewlyLimited,
    is_charged_by_use,
    longest_s,
    most_cores,
    seconds_beyond_shares,
    units,
)
from merkatd.scheduler.observation.guest_starts import beyond_mib
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.observation.running_time import Starts
from merkatd.scheduler.observation.snapshot_builder import MEMORY

FURTHER = slice(len(RESOURCES), None)
"""The columns of network and disk."""


def unlimited_column(observed: Observed) -> Mapping[str, Any]:
    """Return the charge's columns for guests that start repeatedly, if there are any.

    `often`, [vms], marks the VMs of owners with too many starts. `starts_with`, [vms, resources],
    is a guest's network and disk until it has limits: all of its host, or of the largest host if it
    has none yet; 0 for all others.
    """
    vms, capacity = observed.snapshot.vms, observed.snapshot.hosts.capacity
    again = is_one_of(vms.id, observed.started_often)
    if not again.any():
        return {}
    if len(observed.snapshot.resources) == len(RESOURCES):
        return {"often": again}
    largest = capacity.max(axis=0, initial=0.0)
    has = np.vstack([capacity, largest])[np.where(vms.host == NO_HOST, len(capacity), vms.host)]
    has[:, : len(RESOURCES)] = 0.0
    return {"often": again, "starts_with": np.where(again[:, np.newaxis], has, 0.0)}


def owed_before_limits(
    books: ChargeInput,
    period: PeriodRow,
    until: tuple[PeriodRow | None, Mapping[str, Any] | None],
    arrays: Mapping[str, Any],
    rows: Ints,
    elapsed: Floats,
) -> Ints:
    """[rows, resources]: the amount owed for cores that guests had before they got limits.

    It includes memory, network and disk beyond the shares of guests that their owners start
    repeatedly. If use is charged, cores cost the spending rate: the counter of the last guest is
    charged anyway.
    """
    world, seen = books.world, books.seen
    owed = np.zeros((len(rows), arrays["price"].shape[1]))
    starts_of_row = started(seen, period, arrays, until, seen.histories)
    newest = until[0] is None
    limited = books.limited if newest else NOTHING_LIMITED
    replaced = unrecorded(seen, period, arrays, limited.replaced)
    begun = starts_of_row.keys() | replaced.keys()
    more_mib = beyond_mib(arrays, rows, begun, seen.use if newest else None)
    devices = attached(seen, period, arrays, until) if "starts_with" in arrays else {}
    if not (starts_of_row or devices or replaced or more_mib.any()):
        return whole(owed)
    before = stored_prices.load_prices(books.connection, period.number - 1)
    prices = start_prices(arrays, world.markets, before)[arrays["market"][rows]]
    owed[:, MEMORY] = more_mib * elapsed * prices[:, MEMORY]
    now = CpuCounters(seen.use.vm_id, seen.use.cpu_s) if newest else NOTHING_COMPUTED
    most_s = world.rhythm.arrival_look_s or world.rhythm.interval_s
    used = is_charged_by_use(world.markets, arrays["market"])
    charged_s = world.rhythm.most_periods_charged * world.rhythm.interval_s
    replaced_s = {
        # The use of the present domain is charged anyway where use is charged.
        row: min(
            (count - int(used[row])) * _between_looks_s(limited, arrays, row, most_s), charged_s
        )
        for row, count in replaced.items()
    }
    without_s = unlimited_s(arrays, starts_of_row, limited, most_s)
    without_s[list(replaced_s)] += list(replaced_s.values())
    # While the daemon is down no device gets a limit: that costs no more than any other share.
    devices_s = np.minimum(_devices_s(arrays, devices), charged_s)
    parts = (without_s[:, np.newaxis] + devices_s)[rows] / world.rhythm.interval_s
    # Where use is charged, only CPU is charged.
    parts[used[rows]] = 0.0
    owed[:, FURTHER] = (_more(arrays, rows) * prices)[:, FURTHER] * parts
    starts_of_row = {
        row: starts._replace(last_s=0.0) if used[row] else starts
        for row, starts in starts_of_row.items()
    }
    cores = most_cores(seen)
    core_s = seconds_beyond_shares(arrays, starts_of_row, now, limited, most_s, cores, replaced_s)
    price = prices[:, CPU]
    if "rate" in arrays:
        price = np.where(used[rows], arrays["rate"][rows] / UNITS_PER_CORE, price)
    owed[:, CPU] = units(core_s[rows], np.full(len(rows), world.rhythm.interval_s)) * price
    return whole(owed)


def unlimited_s(
    arrays: Mapping[str, Any],
    starts_of_row: Mapping[int, Starts],
    limited: NewlyLimited,
    most_s: float,
) -> Floats:
    """[vms]: the longest possible time without limits, summed over all starts."""
    total = np.zeros(len(arrays["vm"]))
    for row, starts in starts_of_row.items():
        most = longest_s(limited, int(arrays["host"][row]), most_s)
        total[row] = sum(min(ran_s, most) for ran_s in (starts.last_s, *starts.earlier_s))
    return total


def _between_looks_s(
    limited: NewlyLimited, arrays: Mapping[str, Any], row: int, most_s: float
) -> float:
    """Return the longest time between two looks at a VM's host; `most_s` if it is not known."""
    longest = longest_s(limited, int(arrays["host"][row]), most_s)
    return longest if math.isfinite(longest) else most_s


def _devices_s(arrays: Mapping[str, Any], devices: TimesWithoutLimits) -> Floats:
    """[vms, further goods]: how long attached devices had no limits."""
    names = sold(arrays)[FURTHER]
    without_s = np.zeros((len(arrays["vm"]), len(names)))
    for row, seconds in devices.items():
        without_s[row] = [seconds.get(name, 0.0) for name in names]
    return without_s


def _more(arrays: Mapping[str, Any], rows: Ints) -> Floats:
    """[rows, resources]: the amounts beyond the shares of guests that start repeatedly."""
    if "starts_with" not in arrays:
        return np.zeros((len(rows), arrays["price"].shape[1]))
    more: Floats = np.maximum(
        arrays["starts_with"][rows] - held_memory.amounts_given(arrays)[rows], 0.0
    )
    return more
