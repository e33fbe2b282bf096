"""The market in virtual time: events, VMs, tenants, around the daemon's own heart."""
