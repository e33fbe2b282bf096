"""Baselines: other schedulers for comparison, each in its best form."""
