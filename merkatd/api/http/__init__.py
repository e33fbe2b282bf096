"""An HTTP server for tenants and browsers, with bounds on size, time and number of calls."""
