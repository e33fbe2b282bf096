"""Groups: a VM template, a number of VMs, and a spending rate that the VMs share."""
