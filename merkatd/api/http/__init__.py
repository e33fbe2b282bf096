"""HTTP bounded in size, time and number, for tenants and browsers."""
