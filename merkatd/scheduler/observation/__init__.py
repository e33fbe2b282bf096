"""Observations: from the ports' data to a snapshot, and the results of earlier steps."""
