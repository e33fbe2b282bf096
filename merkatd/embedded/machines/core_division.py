"""The division of a host's cores among its guests, and the host's checks of limits.

# Note [Dividing cores]

Without pins a guest gets min(cap, weight x level). The level is the same for all guests and uses up
the cores. Example: 4 cores, weights 2, 1, 1, caps 4, 0.5, 4. The second guest gets its cap of 0.5;
the others share 3.5 cores as 2 to 1: 2.33 and 1.17. Used by `divide`.

With pins the rates of all virtual CPUs rise together, in proportion to their weights. A virtual CPU
stops when a bound is full: a cap, or a set of cores. Sets that overlap are also bounded
by their union. Example: 2 cores and 3 guests with one virtual CPU each. Two guests are pinned to
core 0, with weights 3 and 1; the third may use any core and has weight 1. Core 0 is full at 0.75
and 0.25; the third rises on to 1. Used by `divide_pinned`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from merkatd.embedded.machines.guest_simulation import PERIOD_US, GuestLimits, SimulatedGuest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from merkatd.embedded.model.records import Host
    from merkatd.embedded.model.settings import Guesting


def divide(weights: Sequence[float], caps: Sequence[float], capacity: float) -> list[float]:
    """Return the cores of each guest without pins. See Note [Dividing cores].

    Unused cores go to the other guests in proportion to their weights, as in the kernel's fair
    scheduler.
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
    """A VM's claim to its host's cores."""

    weight: float
    cap: float
    """The most cores of the VM as a whole."""
    vcpu_cap: float
    """The most cores of one virtual CPU."""
    pins: tuple[frozenset[int], ...]
    """The cores that each virtual CPU may use; empty means any core."""


def divide_pinned(claims: Sequence[CoreClaim], cores: int) -> list[float]:
    """Return the cores of each VM if some VMs are pinned. See Note [Dividing cores]."""
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
    """Return the sets and the unions of overlapping sets; disjoint sets bind separately."""
    sets = set(groups)
    fresh = set(groups)
    while fresh and len(sets) < _MOST_SETS:
        joined = {group | two for group in fresh for two in groups if group & two} - sets
        sets |= joined
        fresh = joined
    return sets


_MOST_SETS = 4096


MOST_SHARES = 262_144
"""The highest CPU shares that the kernel accepts."""


class LimitsError(ValueError):
    """Limits that the host can't set: the VM does not run, or a value is out of range."""


def rates(
    host: Host, guests: Sequence[SimulatedGuest], settings: Guesting
) -> tuple[list[float], list[float]]:
    """Return the cores that each guest on a host gets, and those that it gets if it wants all.

    They differ for services that need fewer cores than they can get.
    """
    claims = [_claim(guest) for guest in guests]
    most = [guest.most_cores(settings) for guest in guests]
    needed = [
        replace(claim, cap=cores) if cores < claim.cap else claim
        for claim, cores in zip(claims, most, strict=True)
    ]
    got = _divide_host(host, needed)
    shares = list(got)
    for row, guest in enumerate(guests):
        if guest.behaviour.serves and needed[row] is not claims[row]:
            wanting = [*needed[:row], claims[row], *needed[row + 1 :]]
            shares[row] = _divide_host(host, wanting)[row]
    return got, shares


def _divide_host(host: Host, claims: Sequence[CoreClaim]) -> list[float]:
    cores = host.total_cpu / 100
    if any(pin for claim in claims for pin in claim.pins):
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
    """Raise LimitsError with the first limit that the host would refuse."""
    cores = host.total_cpu // 100
    faults = [
        (
            not 2 <= limits.cpu_shares <= MOST_SHARES,
            f"cpu_shares must be 2 to {MOST_SHARES} (got {limits.cpu_shares})",
        ),
        (
            _bad_quota(limits.vcpu_quota),
            f"vcpu_quota must be -1 or at least 1000 (got {limits.vcpu_quota})",
        ),
        (
            _bad_quota(limits.global_quota),
            f"global_quota must be -1 or at least 1000 (got {limits.global_quota})",
        ),
        (
            not 0 < limits.memory_mib <= guest.size_mib,
            f"memory_mib must be 1 to {guest.size_mib}, the VM's size (got {limits.memory_mib})",
        ),
        (
            len(limits.pins) > guest.vcpus,
            f"pins must be at most {guest.vcpus}, one per virtual CPU (got {len(limits.pins)})",
        ),
        (
            any(not 0 <= core < cores for pin in limits.pins for core in pin),
            f"pins must name cores of host {host.name}: it has 0 to {cores - 1}",
        ),
        (
            _bad_rate(limits.network_kb_s),
            f"network_kb_s must be -1 or at least 1 (got {limits.network_kb_s})",
        ),
        (
            _bad_rate(limits.disk_kib_s),
            f"disk_kib_s must be -1 or at least 1 (got {limits.disk_kib_s})",
        ),
    ]
    for wrong, what in faults:
        if wrong:
            raise LimitsError(f"VM {guest.vm}: {what}")


def _bad_quota(quota: int) -> bool:
    return quota != -1 and quota < 1000


def _bad_rate(rate: int) -> bool:
    return rate != -1 and rate < 1
