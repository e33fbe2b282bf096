"""What platforms and groups share: VMs made by the number, each known by a key."""
