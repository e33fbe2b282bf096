"""A cloud to watch: the daemon on the embedded cloud, with tenants that play a script."""
