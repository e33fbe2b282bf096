"""What a bid would get on a host, and what it would pay."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quote:
    """One resource: what a bid gets and costs."""

    resource: str
    bid: float
    share: float
    price: float
    """Of a unit, with this bid; infinite where no price clears."""
    cost: float
    """Credits that a whole period costs."""
