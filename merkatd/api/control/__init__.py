"""The control socket of commands on the same machine."""
