"""The one shape of all strategies, and what those that use the market have in common."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from merkatd.cluster import Decision, Floats, Snapshot
from merkatd.market.price import PriceRule

Settings = TypeVar("Settings", contravariant=True)  # noqa: PLC0105 - one word for one thing


class Strategy(Protocol[Settings]):
    """A pure function from a snapshot to a decision.

    `memory` is what the strategy returned last time, empty the first time or when what it
    finds there is not its own; randomness comes from `rng` alone.
    """

    def __call__(
        self,
        snapshot: Snapshot,
        settings: Settings,
        memory: Mapping[str, Any],
        rng: np.random.Generator,
    ) -> Decision:
        """Decide what should change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricing:
    """How a market's price is made."""

    rule: PriceRule = PriceRule.CLEARING
    reserve: Mapping[str, float] = field(default_factory=dict)
    """The least price by resource, 0 where none is given."""
    whole_bids: bool = False
    """Whether each bid counts in the price as a whole, also as far as its VM could not use what it
    buys: the paper's rule to the letter, for its experiments alone."""

    def reserve_prices(self, resources: tuple[str, ...]) -> Floats:
        """[resources]: the reserve prices in the snapshot's order."""
        return np.array([self.reserve.get(name, 0.0) for name in resources])
