"""The market in virtual time: events, VMs and tenants around the daemon's own strategies."""
