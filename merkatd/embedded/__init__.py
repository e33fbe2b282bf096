"""An OpenNebula-compatible simulated cloud, for first runs and for most tests."""
