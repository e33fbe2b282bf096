"""Platforms, groups and the VMs they own."""
