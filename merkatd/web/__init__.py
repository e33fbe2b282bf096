"""The web page: what tenants and administrators look at, and the few forms they need."""
