"""Which VMs take part in a period, and on which terms."""
