"""Placement strategies: pure functions with one signature, from a snapshot to a decision."""

from merkatd.placement.contract import StrategyEntry
from merkatd.placement.registry import STRATEGIES, strategy_named

__all__ = ["STRATEGIES", "StrategyEntry", "strategy_named"]
