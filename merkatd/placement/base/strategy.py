"""The common signature of all strategies, and the price settings of market strategies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from merkatd.cluster import Decision, Floats, Snapshot
from merkatd.market.price import PriceRule

Settings = TypeVar("Settings", contravariant=True)  # noqa: PLC0105 - one word for one thing


class Strategy(Protocol[Settings]):
    """A pure function from a snapshot to a decision.

    `memory` is what this version of the strategy returned in the market's last decision, and empty
    without one. Randomness comes from `random` alone.
    """

    def __call__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        memory: Mapping[str, Any],
        random: np.random.Generator,
    ) -> Decision:
        """Return the steps, allocations and prices for this snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """The settings of a market's price."""

    rule: PriceRule = PriceRule.CLEARING
    reserve: Mapping[str, float] = field(default_factory=dict)
    """The least price by resource; 0 for a missing resource."""
    whole_bids: bool = False
    """Whether each bid counts in full, even if its VM can't use all that it buys: the paper's rule
    to the letter, only for its experiments."""

    def reserve_prices(self, resources: tuple[str, ...]) -> Floats:
        """Return [resources]: the reserve prices in the snapshot's order."""
        return np.array([self.reserve.get(name, 0.0) for name in resources])
