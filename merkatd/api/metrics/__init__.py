"""Metrics for Prometheus and the health of the daemon, without data of single tenants."""
