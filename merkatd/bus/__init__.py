"""ZeroMQ between the daemon and the processes that look after platforms: messages, both ends."""
