"""What is to run, within which bounds, and which processes there are."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from merkatd.protocol.controller_kinds import HOME

"""The environment variable with the file descriptor from which the secret can be read, once."""
"""The environment variable that says how monitors reach VMs, in JSON."""
"""The environment variable that all processes of one daemon have, with its state directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much a process may take."""

    memory_bytes: int
    """Of address space."""
    cpu_s: int
    files: int
    nice: int = 19
    """The daemon's own work goes first. One tenant may have forty busy processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One process of a platform."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    secret: str = field(repr=False)
    """Never in the arguments or the environment, where others could read it."""
    log: str
    """The file that its output goes to; the ones before it are this with .1, .2 and so on."""
    log_bytes: int
    logs: int
    bounds: Bounds
    given_up: bool = True
    """Whether it is tried no more after some starts that came to nothing."""


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
