"""The common parts of all strategies, independent of what they optimise."""
