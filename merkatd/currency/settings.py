"""What the administrator may choose about money, with the defaults."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from merkatd.currency.credits import MOST_CREDITS, micro
from merkatd.currency.income import SupplyPolicy
from merkatd.currency.solvency import PATIENCE

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoneySettings:
    """The currency: how much there is, and when it goes where."""

    supply: float = 0.0
    """All credits there are, the treasury's included. 0: starting_credits for each tenant, times
    its weight, so that a renewal tops everybody up to what they started with. What changes is
    issued or taken back in the next period, as far as the treasury goes."""
    starting_credits: float = 1e6
    """What a new tenant's account is opened with, until the next renewal; times its weight where
    no supply is set."""
    renewal_s: float = 30 * DAY_S
    """How often every tenant is topped up to its part of the supply, which goes by its weight."""
    replenishment_s: float = 3600.0
    """How often applications get from their tenant what it chose to add to their budgets."""
    unpaid_periods: int = PATIENCE
    """For how many intervals an owner may leave charges unpaid; then its VMs that hold a floor are
    suspended. A period that begins early is a part of one."""
    policy: SupplyPolicy = field(default_factory=SupplyPolicy)

    def supply_for(self, weights: Iterable[float]) -> int:
        """The micro-credits that there are to be, with tenants of these weights."""
        if self.supply > 0:
            return micro(self.supply)
        return min(sum(self.start_of(weight) for weight in weights), micro(MOST_CREDITS))

    def start_of(self, weight: float) -> int:
        """The micro-credits that a tenant of this weight starts with."""
        times = 1.0 if self.supply > 0 else weight
        return micro(min(self.starting_credits * times, MOST_CREDITS))
