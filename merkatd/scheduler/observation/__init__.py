"""From what the ports showed to a snapshot."""
