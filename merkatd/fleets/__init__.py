"""The common base of platforms and groups: fleets of VMs, each identified by a key."""
