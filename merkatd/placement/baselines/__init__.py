"""Baselines: what a market or a better strategy is compared with."""
