"""How servers of different ages want to be called; what is said here of a version was its own."""

import re
from dataclasses import dataclass

from twisted.logger import Logger

_log = Logger()

_VERSION = re.compile(r"\s*(\d+)\.(\d+)")
_OLDEST, _NEWEST = (4, 14), (7, 99)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The calls that are not the same everywhere."""

    version: tuple[int, int]

    @property
    def vm_pool(self) -> str:
        """The call that lists VMs as fully as the server does; the older one shows outlines."""
        return "one.vmpool.infoextended" if self.version >= (5, 10) else "one.vmpool.info"

    @property
    def vm_sets(self) -> bool:
        """Whether VMs can be asked for by their ids, many at a time."""
        return self.version >= (6, 0)

    @property
    def vm_groups(self) -> bool:
        """Whether there are VM groups."""
        return self.version >= (5, 4)

    @property
    def deploy_arguments(self) -> int:
        """VM, host, enforce, datastore; then also a template."""
        return 5 if self.version >= (5, 8) else 4

    @property
    def migrate_arguments(self) -> int:
        """VM, host, live, enforce; then also a datastore; then also the kind of migration."""
        if self.version >= (5, 8):
            return 6
        return 5 if self.version >= (4, 14) else 4

    @property
    def runs_scheduled_actions(self) -> bool:
        """Whether the server runs them by itself; before, its scheduler did."""
        return self.version >= (6, 8)


def dialect_of(version: str) -> Dialect:
    """The dialect of a server that calls itself this; of one that nobody knows, the newest."""
    match = _VERSION.match(version)
    if match is None:
        _log.warn("Version {version} is unknown; it is taken for a new one", version=version[:40])
        return Dialect(_NEWEST)
    found = int(match[1]), int(match[2])
    if found < _OLDEST:
        _log.warn(
            "OpenNebula {version} is older than any that was tried; from {oldest} on all is known",
            version=version[:40],
            oldest="{}.{}".format(*_OLDEST),
        )
    return Dialect(found)
