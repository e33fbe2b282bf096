"""One scenario in the daemon and in the simulator."""
