"""Reports about the whole cloud: tenants' months and shares, free capacity, and changed clouds."""
