"""Virtual platforms: from a tenant's template to VMs that are looked after."""
