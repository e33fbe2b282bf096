"""What changes of plans must know of each market: its strategy and its settings."""

from typing import Any, Protocol

from merkatd.placement.contract import StrategyEntry


class DecidedMarket(Protocol):
    """A market whose strategy has decided."""

    @property
    def entry(self) -> StrategyEntry:
        """The market's strategy."""

    @property
    def settings_in_force(self) -> Any:
        """The settings of the strategy, with the market's prices."""
