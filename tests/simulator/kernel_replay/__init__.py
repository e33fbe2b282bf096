"""Runs of the kernel, replayed in the daemon."""
