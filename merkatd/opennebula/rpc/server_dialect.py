"""Differences between OpenNebula's versions, taken from the behaviour of each version."""

import re
from dataclasses import dataclass

from twisted.logger import Logger

_log = Logger()

_VERSION = re.compile(r"\s*(\d+)\.(\d+)")
_OLDEST, _NEWEST = (4, 14), (7, 99)


@dataclass(frozen=True, slots=True)
class ServerDialect:
    """The calls that differ between versions."""

    version: tuple[int, int]

    @property
    def vm_pool(self) -> str:
        """Return the call that lists VMs in full; in older versions it returns only outlines."""
        return "one.vmpool.infoextended" if self.version >= (5, 10) else "one.vmpool.info"

    @property
    def vm_sets(self) -> bool:
        """Return whether several VMs can be read by their ids in a single call."""
        return self.version >= (6, 0)

    @property
    def vm_groups(self) -> bool:
        """Return whether the server has VM groups."""
        return self.version >= (5, 4)

    @property
    def deploy_arguments(self) -> int:
        """Return the number of arguments: VM, host, enforce, datastore; later also a template."""
        return 5 if self.version >= (5, 8) else 4

    @property
    def migrate_arguments(self) -> int:
        """Return the number of arguments: VM, host, live, enforce.

        Later versions also have a datastore, and then the kind of migration.
        """
        if self.version >= (5, 8):
            return 6
        return 5 if self.version >= (4, 14) else 4

    @property
    def runs_scheduled_actions(self) -> bool:
        """Return whether the server runs scheduled actions; earlier, its scheduler did."""
        return self.version >= (6, 8)


def dialect_of(version: str) -> ServerDialect:
    """Return the dialect of a version; the newest for an unknown version."""
    match = _VERSION.match(version)
    if match is None:
        _log.warn(
            "OpenNebula's version {version} is unknown and treated as the newest",
            version=version[:40],
        )
        return ServerDialect(_NEWEST)
    release = int(match[1]), int(match[2])
    if release < _OLDEST:
        _log.warn(
            "OpenNebula {version} is older than all tested versions; expected {oldest} or later",
            version=version[:40],
            oldest="{}.{}".format(*_OLDEST),
        )
    return ServerDialect(release)
