"""What comes to tenants: renewals, replenishment, and the supply behind them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from merkatd.currency.credits import divided_rounding_down


@dataclass(frozen=True, slots=True)
class RenewalPart:
    """What a renewal needs to know of one tenant."""

    owner: int
    weight: float
    holdings: int
    """Micro-credits of its account and its applications' together."""


def entitlements(supply: int, tenants: Iterable[RenewalPart]) -> dict[int, int]:
    """By owner: the part of the supply that its weight stands for."""
    return divided_rounding_down(supply, {tenant.owner: tenant.weight for tenant in tenants})


def incomes(supply: int, treasury: int, tenants: Iterable[RenewalPart]) -> dict[int, int]:
    """By owner: what a renewal pays. All are scaled down alike where the treasury is short."""
    known = list(tenants)
    entitled = entitlements(supply, known)
    lacking = {one.owner: max(0, entitled[one.owner] - one.holdings) for one in known}
    return scaled_to_treasury(treasury, lacking)


def scaled_to_treasury(purse: int, wanted: Mapping[int, int]) -> dict[int, int]:
    """What is wanted, or the same part of all of it where the purse is short."""
    if sum(wanted.values()) <= purse:
        return dict(wanted)
    return divided_rounding_down(purse, wanted)


@dataclass(frozen=True, slots=True)
class Refill:
    """What a replenishment needs to know of one application."""

    application: int
    initial: int
    """The budget is never lifted above this."""
    amount: int
    """What its tenant chose to add each time."""
    balance: int


def replenishments(purse: int, budgets: Iterable[Refill]) -> dict[int, int]:
    """By application of one tenant: what is moved, all alike where the tenant is short."""
    wanted = {
        one.application: max(0, min(one.amount, one.initial - one.balance)) for one in budgets
    }
    return scaled_to_treasury(purse, wanted)


Prices = Mapping[tuple[str, str], float]
"""By market and resource: the average of a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyPolicy:
    """When the supply is changed, and by how much."""

    enabled: bool = False
    """Whether the supply follows prices at all."""
    days: int = 7
    """For so many days on end prices must have been off what they were in as many before."""
    drift_part: float = 0.2
    """How far off is far, as a part."""
    step_part: float = 0.05
    """By which part the supply is raised or lowered at a time."""
    least_part: float = 0.5
    """The least supply, as a part of the configured one,"""
    most_times: float = 2.0
    """and the most, as a multiple of it."""


@dataclass(frozen=True, slots=True)
class SupplyChange:
    """A new supply, and why."""

    old: int
    new: int
    reason: str


def supply_change(
    policy: SupplyPolicy, configured: int, supply: int, days: Sequence[Prices]
) -> SupplyChange | None:
    """What the policy makes of the last days' prices, oldest first; None: leave it.

    More credits bid for the same capacity raise prices: where they have risen for long the
    supply is lowered, where they have fallen it is raised.
    """
    if not policy.enabled or len(days) < 2 * policy.days:
        return None
    before, recent = days[-2 * policy.days : -policy.days], days[-policy.days :]
    offs = [_off(day, before) for day in recent]
    far = math.log1p(policy.drift_part)
    if all(off is not None and off > far for off in offs):
        sign, direction = -1, "risen"
    elif all(off is not None and off < -far for off in offs):
        sign, direction = 1, "fallen"
    else:
        return None
    new = round(supply * (1.0 + sign * policy.step_part))
    new = min(
        max(new, round(configured * policy.least_part)), round(configured * policy.most_times)
    )
    if (new - supply) * sign <= 0:
        return None
    mean = math.expm1(math.fsum(off for off in offs if off is not None) / len(offs))
    verb = "lowered" if sign < 0 else "raised"
    reason = (
        f"prices have {direction} by {abs(mean):.0%} on average in the last {policy.days} days"
        f" against the {policy.days} before, on each day by more than {policy.drift_part:.0%}:"
        f" the supply is {verb} by {abs(new - supply) / supply:.1%}"
    )
    return SupplyChange(supply, new, reason)


def _off(day: Prices, before: Sequence[Prices]) -> float | None:
    """How far a day's prices are from earlier ones: the mean of the logarithms of the ratios."""
    ratios = []
    for key, price in day.items():
        earlier = [one[key] for one in before if one.get(key, 0.0) > 0]
        if price > 0 and len(earlier) == len(before):
            ratios.append(math.log(price / (math.fsum(earlier) / len(earlier))))
    return math.fsum(ratios) / len(ratios) if ratios else None
