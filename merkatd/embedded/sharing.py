"""How a host divides its cores: caps first, then by weight, exactly, with or without pins."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


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
class Claim:
    """What one VM asks of its host's processors."""

    weight: float
    cap: float
    """Cores in all, whatever its virtual processors could use."""
    vcpu_cap: float
    """Cores of one virtual processor."""
    pins: tuple[frozenset[int], ...]
    """The cores that each virtual processor may use; empty where it may use any."""


def divide_pinned(claims: Sequence[Claim], cores: int) -> list[float]:
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
    claims: Sequence[Claim], cores: int
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
    claims: Sequence[Claim], owners: list[int], masks: list[frozenset[int]], cores: int
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
