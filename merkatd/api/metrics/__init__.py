"""Figures for Prometheus, and whether the daemon is well: read by machines, never a tenant's."""
