"""Placement baselines: each finds hosts for waiting VMs from the free room of hosts alone."""
