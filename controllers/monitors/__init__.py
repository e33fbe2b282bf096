"""Monitors: what watches the application of a virtual cluster and tells its controller."""
