"""ZeroMQ messages between the daemon and the platforms' processes: both ends."""
