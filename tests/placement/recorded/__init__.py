"""Decisions of the strategies as they were, as digests: no change of a decision goes unnoticed."""
