"""Reasons of steps on hosts, as texts for administrators."""

from merkatd.cluster import Snapshot
from merkatd.limits.enforced_limits import CPU
from merkatd.limits.memory_targets import MemoryHoldings


def why_limit(
    snapshot: Snapshot, vm: int, host: int, share: float, bids: float, *, only_weight: bool
) -> str:
    """Return the reason of a CPU limit; `bids` is the sum of the bids on the host."""
    column = snapshot.resources.index(CPU)
    bid = float(snapshot.vms.bid[vm, column])
    if only_weight:
        name = snapshot.hosts.name[host]
        return f"its weight on {name} follows its bid for cpu: {_bid(bid)} of {_bid(bids)} there"
    return why_share(snapshot, vm, host, share, bids, CPU)


def why_share(
    snapshot: Snapshot, vm: int, host: int, share: float, bids: float, resource: str
) -> str:
    """Return a VM's share of its host and its cause; `bids` is the sum of the bids on the host."""
    column = snapshot.resources.index(resource)
    bid = float(snapshot.vms.bid[vm, column])
    name, capacity = snapshot.hosts.name[host], snapshot.hosts.capacity[host, column]
    given = f"its share of {name}'s {resource} is {_n(share)} of {_n(capacity)}"
    if share >= snapshot.vms.cap[vm, column]:
        return f"{given}, all that it can use"
    if 0 < share <= snapshot.vms.floor[vm, column]:
        return f"{given}, its floor"
    if bid <= 0:
        return f"{given}: it bids nothing there"
    return f"{given}: its bid is {_bid(bid)} of {_bid(bids)} there"


def why_balloon(
    snapshot: Snapshot, stock: MemoryHoldings, vm: int, host: int, memory_mib: int
) -> str:
    """Return the change of a balloon, and what decides its target."""
    name = snapshot.hosts.name[host]
    holds, target = int(stock.holds[vm]), int(stock.target[vm])
    starts = snapshot.vms.host[vm] < 0
    way = f"from {'its size' if starts else _n(holds)} to {_n(memory_mib)} MiB"
    if memory_mib != target:
        way += f" on its way to {_n(target)}"
    guests = stock.guests
    if target > guests.share[vm]:
        if target <= guests.floor[vm] + 1:
            return f"{way}: its floor, which is more than its share of {name}'s memory"
        return f"{way}: its use plus a margin, which is more than its share of {name}'s memory"
    if target + 1 <= min(guests.share[vm], guests.size[vm]):
        return f"{way}: other VMs on {name} need or hold more than their share of its memory"
    return f"{way}: its share of {name}'s memory"


def why_pinned(snapshot: Snapshot, host: int, vcpus: int, cores: int) -> str:
    """Return the reason of new or changed pins."""
    name = snapshot.hosts.name[host]
    if vcpus > cores:
        return f"its {vcpus} virtual CPUs share the {cores} cores of {name}, the least loaded first"
    if vcpus == 1:
        return f"its virtual CPU gets the core of {name} with most room for its share"
    return f"its {vcpus} virtual CPUs get a core each, where {name} has most room for its share"


def why_emulator(snapshot: Snapshot, host: int) -> str:
    """Return the reason to set the same pins again."""
    name = snapshot.hosts.name[host]
    return f"its emulator threads are not on the cores that {name} reserves for them"


def why_freed(snapshot: Snapshot, host: int | None) -> str:
    """Return the reason to remove pins: a migration, or a host without pins."""
    if host is None:
        return "its host no longer pins virtual CPUs"
    return f"is about to migrate to {snapshot.hosts.name[host]}, which has other cores"


def why_overfull(snapshot: Snapshot, stock: MemoryHoldings, host: int) -> str:
    """Return why a host is overfull."""
    return (
        f"{snapshot.hosts.name[host]} is overfull: its VMs need at least"
        f" {_n(float(stock.needed[host]))} MiB of memory, and it has"
        f" {_n(max(float(stock.room[host] + stock.leaving[host]), 0.0))} for them"
    )


def why_no_room(snapshot: Snapshot, host: int, arrives_mib: int, missing_mib: int) -> str:
    """Return why a VM can't come in this period."""
    name = snapshot.hosts.name[host]
    return (
        f"needs {_n(arrives_mib)} MiB on {name}, {_n(missing_mib)} MiB more than this period"
        " can free there"
    )


def why_never_room(snapshot: Snapshot, host: int, least_mib: int) -> str:
    """Return why a VM can't come in any period, even if all balloons shrink."""
    name = snapshot.hosts.name[host]
    return (
        f"needs at least {_n(least_mib)} MiB on {name}, and balloons can't free that: the other VMs"
        " there keep their floors and the memory they use"
    )


def _n(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def _bid(value: float) -> str:
    return f"{value:.2g}" if 0 < value < 1 else _n(value)
