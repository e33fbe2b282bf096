"""The simulator: the daemon's market in virtual time, with traces, models and other schedulers."""
