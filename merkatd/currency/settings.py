"""The administrator's settings of the currency, with their defaults."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from merkatd.currency.credits import MOST_CREDITS, micro
from merkatd.currency.income import SupplyPolicy
from merkatd.currency.solvency import PATIENCE

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneySettings:
    """The amount of money and the times of its distribution."""

    supply: float = 0.0
    """The total of all credits, including the treasury. 0: the sum of `starting_credits` times
    weight over the tenants, so that a renewal restores each tenant's first balance. After a change
    the next period issues or withdraws credits, as far as the treasury allows."""
    starting_credits: float = 1e6
    """The credits of a new tenant until the next renewal. If no supply is set, they are multiplied
    by the tenant's weight."""
    renewal_s: float = 30 * DAY_S
    """The interval of renewals. Each fills every tenant up to its part of the supply, by weight."""
    replenishment_s: float = 3600.0
    """The interval at which applications receive the replenishment that their tenant chose."""
    unpaid_periods: int = PATIENCE
    """The number of intervals for which an owner may leave charges unpaid. After that the daemon
    suspends its VMs that hold a floor. A period that starts early counts as a part of an
    interval."""
    policy: SupplyPolicy = field(default_factory=SupplyPolicy)

    def supply_for(self, weights: Iterable[float]) -> int:
        """Return the supply in micro-credits for tenants of these weights."""
        if self.supply > 0:
            return micro(self.supply)
        return min(sum(self.start_of(weight) for weight in weights), micro(MOST_CREDITS))

    def start_of(self, weight: float) -> int:
        """Return the first balance, in micro-credits, of a tenant of this weight."""
        times = 1.0 if self.supply > 0 else weight
        return micro(min(self.starting_credits * times, MOST_CREDITS))
