"""Rules of platforms as arithmetic: the daemon and the simulator use the same ones."""
