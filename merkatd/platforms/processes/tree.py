"""Processes as /proc shows them: whose children they are, and which daemon they are of."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from merkatd.platforms.processes.program import HOME

_PROC = Path("/proc")


def _every() -> Iterator[int]:
    for name in os.listdir(_PROC):  # noqa: PTH208 - paths of each would cost as much as all else
        if name.isdigit():
            yield int(name)


def parent_of(pid: int) -> int | None:
    """The parent of a process that has not ended, None where it has."""
    try:
        words = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in {"Z", "X"} else int(words[1])


def children_of(parent: int) -> frozenset[int]:
    """Those who run now."""
    return frozenset(pid for pid in _every() if parent_of(pid) == parent)


def descendants_of(ancestor: int) -> frozenset[int]:
    """The children, theirs, and so on."""
    parents = {pid: parent_of(pid) for pid in _every()}
    found: set[int] = set()
    newer = {ancestor}
    while newer:
        newer = {pid for pid, parent in parents.items() if parent in newer} - found
        found |= newer
    return frozenset(found)


def marked(home: str) -> frozenset[int]:
    """All processes, whoever's children, that were started for the daemon of this directory."""
    wanted = f"{HOME}={home}".encode()
    found = set()
    for pid in _every():
        with suppress(OSError):
            if wanted in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                found.add(pid)
    return frozenset(found - {os.getpid()})


def kill(pids: frozenset[int]) -> None:
    """End these at once."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
