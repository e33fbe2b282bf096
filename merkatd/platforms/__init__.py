"""Virtual platforms: from a tenant's template to the VMs of a running application."""
