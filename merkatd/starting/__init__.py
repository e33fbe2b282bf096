"""The parts of the daemon, each made as configured; `merkatd.daemon` joins them."""
