"""The parts of the daemon, built from the configuration; `merkatd.daemon.assembly` joins them."""
