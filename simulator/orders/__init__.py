"""Patient platforms in virtual time: the daemon's rules with a clock and a cloud of their own."""
