"""Monitors, which watch the application of a virtual cluster and report to its controller."""
