"""Commands that work without a running daemon, and `run`, the daemon itself."""
