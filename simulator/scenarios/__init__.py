"""Scenarios of whole data centres: their files, their runs on the kernel, and their outcomes."""
