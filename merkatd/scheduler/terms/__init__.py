"""The participants of a period, and their terms."""
