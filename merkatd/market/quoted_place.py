"""A quote: the share and the cost of a bid on a host."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quote:
    """The share and the cost of a bid for one resource."""

    resource: str
    bid: float
    share: float
    price: float
    """Price of a unit with this bid; infinite if no price clears."""
    cost: float
    """Credits for a whole period."""
