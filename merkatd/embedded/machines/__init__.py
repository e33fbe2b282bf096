"""What happens to VMs and hosts in time."""
