"""The error of a daemon that can't start."""


class StartError(Exception):
    """The daemon can't start; the message gives the reason and the way out."""
