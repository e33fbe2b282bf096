"""Common parts of the benchmarks."""
