"""Open files: as many as the system lets us have, and the doors leave the daemon enough of them.

Each connection is an open file, and so is what the daemon needs for OpenNebula, the database, its
hosts and its platforms. Where strangers' connections took all of them, no period would run.
"""

import resource
from dataclasses import replace

from twisted.logger import Logger

from merkatd.api.http.settings import ApiSettings

_MOST = 1 << 17
OWN = 512
"""What the daemon needs beside the doors at least."""
_LEAST = 16

_log = Logger()


def raise_limit() -> None:
    """Let this process have as many files open as the system allows without rights."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def files() -> int:
    """Return how many files this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST if soft == resource.RLIM_INFINITY else soft


def within(settings: ApiSettings, doors: int, most_files: int) -> ApiSettings:
    """Return the bounds of each of so many doors, with no more connections than there is room for.

    What is too much is said in the log.
    """
    most = max((most_files - OWN) // doors, _LEAST)
    if settings.connections <= most:
        return settings
    _log.warn(
        "The system lets merkatd have {files} files open: a door has {most} connections at most,"
        " not {wanted} (api.connections)",
        files=most_files,
        most=most,
        wanted=settings.connections,
    )
    per_address = min(settings.connections_per_address, most)
    return replace(settings, connections=most, connections_per_address=per_address)
