"""Income of tenants and applications: renewals, replenishment, and the supply behind them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from merkatd.currency.credits import divided_rounding_down


@dataclass(frozen=True, slots=True)
class RenewalPart:
    """A tenant's data for a renewal."""

    owner: int
    weight: float
    holdings: int
    """Micro-credits of the tenant's account and its applications together."""


def entitlements(supply: int, tenants: Iterable[RenewalPart]) -> dict[int, int]:
    """Return each owner's part of the supply, in proportion to its weight."""
    return divided_rounding_down(supply, {tenant.owner: tenant.weight for tenant in tenants})


def incomes(supply: int, treasury: int, tenants: Iterable[RenewalPart]) -> dict[int, int]:
    """Return the income of each owner; all are scaled down alike if the treasury is too small."""
    known = list(tenants)
    entitled = entitlements(supply, known)
    lacking = {tenant.owner: max(0, entitled[tenant.owner] - tenant.holdings) for tenant in known}
    return scaled_to_treasury(treasury, lacking)


def scaled_to_treasury(purse: int, wanted: Mapping[int, int]) -> dict[int, int]:
    """Return the wanted amounts, all scaled down by one factor if the purse can't pay them."""
    if sum(wanted.values()) <= purse:
        return dict(wanted)
    return divided_rounding_down(purse, wanted)


@dataclass(frozen=True, slots=True)
class Refill:
    """An application's data for a replenishment."""

    application: int
    initial: int
    """The upper limit of a replenished budget."""
    amount: int
    """The amount that the tenant chose to add each time."""
    balance: int


def replenishments(purse: int, budgets: Iterable[Refill]) -> dict[int, int]:
    """Return the amount for each application of a tenant, all scaled alike if it is short."""
    wanted = {
        budget.application: max(0, min(budget.amount, budget.initial - budget.balance))
        for budget in budgets
    }
    return scaled_to_treasury(purse, wanted)


Prices = Mapping[tuple[str, str], float]
"""Average prices of a day, by market and resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplyPolicy:
    """Conditions and size of changes of the supply."""

    enabled: bool = False
    """Whether the supply follows prices."""
    days: int = 7
    """The number of days in a row on which prices must differ from those of as many days before."""
    drift_part: float = 0.2
    """The least difference of prices that counts, as a part of the earlier price."""
    step_part: float = 0.05
    """The size of one change, as a part of the supply."""
    least_part: float = 0.5
    """The least supply, as a part of the configured supply."""
    most_times: float = 2.0
    """The greatest supply, as a multiple of the configured supply."""


@dataclass(frozen=True, slots=True)
class SupplyChange:
    """A new supply with its reason."""

    old: int
    new: int
    reason: str


def supply_change(
    policy: SupplyPolicy, configured: int, supply: int, days: Sequence[Prices]
) -> SupplyChange | None:
    """Return the change that the policy makes after these days (oldest first), or None.

    More credits for the same capacity raise prices. So the policy lowers the supply after prices
    rose for long, and raises it after they fell for long.
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
    """Return the mean logarithm of a day's prices relative to the earlier averages."""
    ratios = []
    for key, price in day.items():
        earlier = [price[key] for price in before if price.get(key, 0.0) > 0]
        if price > 0 and len(earlier) == len(before):
            ratios.append(math.log(price / (math.fsum(earlier) / len(earlier))))
    return math.fsum(ratios) / len(ratios) if ratios else None
