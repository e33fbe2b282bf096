"""Columns of snapshots that describe hosts and VMs, besides the market's amounts."""
