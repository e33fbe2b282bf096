"""The demo: the daemon on an embedded cloud, with tenants that follow a script."""
