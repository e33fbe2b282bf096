"""Limit orders: which run, on which hosts, and what that means for their VMs."""
