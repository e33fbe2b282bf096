"""The parts of the daemon, each made as configured; `merkatd.daemon.assembly` joins them."""
