"""The limit on open files, and its division between the interfaces and the daemon's own needs.

Each connection is an open file. The daemon also needs open files for OpenNebula, the database, its
hosts and its platforms. If incoming connections used all open files, no period could run.
"""

import resource
from dataclasses import replace

from twisted.logger import Logger

from merkatd.api.http.settings import ApiSettings

_MOST = 1 << 17
OWN = 512
"""The least number of open files that the daemon needs besides its interfaces."""
_LEAST = 16

_log = Logger()


def raise_limit() -> None:
    """Raise this process's limit on open files as far as is possible without privileges."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def files() -> int:
    """Return the most files that this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST if soft == resource.RLIM_INFINITY else soft


def within(settings: ApiSettings, doors: int, most_files: int) -> ApiSettings:
    """Return the limits of each of `doors` interfaces; connections are reduced to `most_files`.

    A reduction is logged.
    """
    most = max((most_files - OWN) // doors, _LEAST)
    if settings.connections <= most:
        return settings
    _log.warn(
        "merkatd may have only {files} files open: each interface accepts {most} connections"
        " instead of {wanted} (api.connections)",
        files=most_files,
        most=most,
        wanted=settings.connections,
    )
    per_address = min(settings.connections_per_address, most)
    return replace(settings, connections=most, connections_per_address=per_address)
