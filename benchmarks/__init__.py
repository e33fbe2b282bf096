"""Benchmarks: the costs of the daemon and the quality of its decisions, with limits."""
