"""The simulation of VMs and hosts over time."""
