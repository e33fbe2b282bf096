"""Placement strategies: pure functions from a snapshot to a decision, all of one shape."""

from merkatd.placement.registry import STRATEGIES, StrategyEntry, strategy_named

__all__ = ["STRATEGIES", "StrategyEntry", "strategy_named"]
