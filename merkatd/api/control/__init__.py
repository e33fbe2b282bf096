"""The control socket for commands on the same machine."""
