"""Tables of virtual platforms, groups and their VMs."""
