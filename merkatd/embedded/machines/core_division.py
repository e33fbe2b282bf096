"""What a host makes of limits, and how it divides its cores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from merkatd.embedded.machines.guest_simulation import PERIOD_US, GuestLimits, SimulatedGuest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from merkatd.embedded.model.records import Host


def divide(weights: Sequence[float], caps: Sequence[float], capacity: float) -> list[float]:
    """Cores for each: `min(cap, weight x level)`, the one level using up what there is.

    What one doesn't take goes to the others in proportion to their weights, as the kernel's fair
    scheduler gives it.
    """
    order = sorted(range(len(caps)), key=lambda i: caps[i] / weights[i])
    left = capacity
    weight = math.fsum(weights)
    shares = [0.0] * len(caps)
    for place, i in enumerate(order):
        if caps[i] * weight > left * weights[i]:
            level = left / weight
            for j in order[place:]:
                shares[j] = weights[j] * level
            break
        shares[i] = caps[i]
        left -= caps[i]
        weight -= weights[i]
    return shares


@dataclass(frozen=True, slots=True)
class CoreClaim:
    """What one VM asks of its host's processors."""

    weight: float
    cap: float
    """Cores in all, whatever its virtual processors could use."""
    vcpu_cap: float
    """Cores of one virtual processor."""
    pins: tuple[frozenset[int], ...]
    """The cores that each virtual processor may use; empty where it may use any."""


def divide_pinned(claims: Sequence[CoreClaim], cores: int) -> list[float]:
    """Cores for each VM where some are pinned: all rates rise together, each until something binds.

    What can bind is a cap, or a set of cores whose users have filled it. Sets of cores that
    overlap bind together too, so their unions count as well.
    """
    owners, weights, masks = _vcpus(claims, cores)
    bounds = _bounds(claims, owners, masks, cores)
    rates = [0.0] * len(owners)
    rising = {i for i in range(len(owners)) if weights[i] > 0}
    while rising:
        step, full = math.inf, list[_Bound]()
        for bound in bounds:
            speed = math.fsum(weights[i] for i in bound.members if i in rising)
            if speed <= 0:
                continue
            room = max(0.0, bound.limit - math.fsum(rates[i] for i in bound.members))
            reach = room / speed
            if reach < step - 1e-12:
                step, full = reach, [bound]
            elif reach <= step + 1e-12:
                full.append(bound)
        for i in rising:
            rates[i] += weights[i] * step
        for bound in full:
            rising.difference_update(bound.members)
    shares = [0.0] * len(claims)
    for i, owner in enumerate(owners):
        shares[owner] += rates[i]
    return shares


@dataclass(frozen=True, slots=True)
class _Bound:
    members: tuple[int, ...]
    limit: float


def _vcpus(
    claims: Sequence[CoreClaim], cores: int
) -> tuple[list[int], list[float], list[frozenset[int]]]:
    every = frozenset(range(cores))
    owners: list[int] = []
    weights: list[float] = []
    masks: list[frozenset[int]] = []
    for number, claim in enumerate(claims):
        for pin in claim.pins:
            owners.append(number)
            weights.append(claim.weight / len(claim.pins))
            masks.append(pin & every or every)
    return owners, weights, masks


def _bounds(
    claims: Sequence[CoreClaim], owners: list[int], masks: list[frozenset[int]], cores: int
) -> list[_Bound]:
    bounds = [_Bound((i,), claims[owner].vcpu_cap) for i, owner in enumerate(owners)]
    for number, claim in enumerate(claims):
        bounds.append(_Bound(tuple(i for i, who in enumerate(owners) if who == number), claim.cap))
    for group in _unions({*masks, frozenset(range(cores))}):
        members = tuple(i for i, mask in enumerate(masks) if mask <= group)
        bounds.append(_Bound(members, float(len(group))))
    return bounds


def _unions(groups: set[frozenset[int]]) -> set[frozenset[int]]:
    """The sets and the unions of those that overlap; disjoint ones bind one by one."""
    found = set(groups)
    fresh = set(groups)
    while fresh and len(found) < _MOST_SETS:
        joined = {one | two for one in fresh for two in groups if one & two} - found
        found |= joined
        fresh = joined
    return found


_MOST_SETS = 4096


MOST_SHARES = 262_144
"""The most that the kernel takes."""


class LimitsError(ValueError):
    """Limits that the host can't set: the VM doesn't run, or a value is out of range."""


def rates(host: Host, guests: Sequence[SimulatedGuest]) -> list[float]:
    """Cores that each guest on a host really gets."""
    claims = [_claim(guest) for guest in guests]
    cores = host.total_cpu / 100
    if any(pin for guest in guests for pin in guest.limits.pins):
        return divide_pinned(claims, round(cores))
    return divide([claim.weight for claim in claims], [claim.cap for claim in claims], cores)


def _claim(guest: SimulatedGuest) -> CoreClaim:
    limits, vcpu_cap = guest.limits, 0.0 if guest.finished else guest.behaviour.demand
    if limits.vcpu_quota > 0:
        vcpu_cap = min(vcpu_cap, limits.vcpu_quota / PERIOD_US)
    cap = guest.vcpus * vcpu_cap
    if limits.global_quota > 0:
        cap = min(cap, limits.global_quota / PERIOD_US)
    missing = guest.vcpus - len(limits.pins)
    pins = tuple(map(frozenset, limits.pins)) + (frozenset[int](),) * missing
    return CoreClaim(float(limits.cpu_shares), cap, vcpu_cap, pins)


def check(guest: SimulatedGuest, limits: GuestLimits, host: Host) -> None:
    """Raise an error that names the first limit that the host would refuse."""
    cores = host.total_cpu // 100
    faults = [
        (
            not 2 <= limits.cpu_shares <= MOST_SHARES,
            f"cpu_shares {limits.cpu_shares}: 2 to {MOST_SHARES}",
        ),
        (_bad_quota(limits.vcpu_quota), f"vcpu_quota {limits.vcpu_quota}: -1, or 1000 and more"),
        (
            _bad_quota(limits.global_quota),
            f"global_quota {limits.global_quota}: -1, or 1000 and more",
        ),
        (
            not 0 < limits.memory_mib <= guest.size_mib,
            f"memory_mib {limits.memory_mib}: 1 to {guest.size_mib}, the domain's size",
        ),
        (
            len(limits.pins) > guest.vcpus,
            f"{len(limits.pins)} pins: at most {guest.vcpus}, one for each virtual processor",
        ),
        (
            any(not 0 <= core < cores for pin in limits.pins for core in pin),
            f"pins to cores that host {host.name} hasn't: it has 0 to {cores - 1}",
        ),
        (_bad_rate(limits.network_kb_s), f"network_kb_s {limits.network_kb_s}: -1, or 1 and more"),
        (_bad_rate(limits.disk_kib_s), f"disk_kib_s {limits.disk_kib_s}: -1, or 1 and more"),
    ]
    for wrong, what in faults:
        if wrong:
            raise LimitsError(f"VM {guest.vm}: {what}")


def _bad_quota(quota: int) -> bool:
    return quota != -1 and quota < 1000


def _bad_rate(rate: int) -> bool:
    return rate != -1 and rate < 1
