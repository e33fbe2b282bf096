"""The kernel: whole data centres in virtual time, as events and arrays."""
