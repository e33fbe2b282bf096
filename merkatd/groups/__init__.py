"""Groups: a VM template, a spending rate and a number of VMs that share it."""
