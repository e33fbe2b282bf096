"""What a daemon that can't start says."""


class StartError(Exception):
    """The daemon can't start; the message says what would have to be different."""
