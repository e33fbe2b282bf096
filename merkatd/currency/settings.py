"""What the administrator may choose about money, with the defaults."""

from dataclasses import dataclass, field

from merkatd.currency.arrears import PATIENCE
from merkatd.currency.supply import SupplyPolicy

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Money:
    """The currency: how much there is, and when it goes where."""

    supply: float = 1e12
    """All credits there are, the treasury's included. What is changed here is issued or taken
    back in the next period, as far as the treasury goes."""
    starting_credits: float = 1e6
    """What a new tenant's account is opened with, until the next renewal."""
    renewal_s: float = 30 * DAY_S
    """How often every tenant is topped up to its part of the supply, which goes by its weight."""
    replenishment_s: float = 3600.0
    """How often applications get from their tenant what it chose to add to their budgets."""
    unpaid_periods: int = PATIENCE
    """For how many periods on end a VM may hold its floor without paying; then it is suspended."""
    policy: SupplyPolicy = field(default_factory=SupplyPolicy)
