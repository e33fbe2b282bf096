"""What can be asked of a running daemon and ordered from it, the same for all its interfaces."""
