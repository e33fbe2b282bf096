"""Programs to run with their resource limits, and the processes of the machine."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from merkatd.protocol.controller_kinds import HOME


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLimits:
    """The resource limits of a process."""

    memory_bytes: int
    """The address space."""
    cpu_s: int
    files: int
    nice: int = 19
    """The lowest priority: the daemon's own work comes first. A tenant may have forty busy
    processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One process of a platform."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    secret: str = field(repr=False)
    """The passport: never passed in arguments or environment, where other users could read it."""
    log: str
    """The path of its log file; older files have the suffixes .1, .2 and so on."""
    log_bytes: int
    logs: int
    bounds: ProcessLimits
    given_up: bool = True
    """Whether the supervisor gives up after several failed starts."""


_PROC = Path("/proc")


def _every() -> Iterator[int]:
    for name in os.listdir(_PROC):  # noqa: PTH208 - path objects would double the time
        if name.isdigit():
            yield int(name)


def parent_of(pid: int) -> int | None:
    """Return the parent of a process; None if the process has ended."""
    try:
        words = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if words[0] in {"Z", "X"} else int(words[1])


def children_of(parent: int) -> frozenset[int]:
    """Return the running children of a process."""
    return frozenset(pid for pid in _every() if parent_of(pid) == parent)


def descendants_of(ancestor: int) -> frozenset[int]:
    """Return the running children of a process, their children, and so on."""
    parents = {pid: parent_of(pid) for pid in _every()}
    descendants: set[int] = set()
    newer = {ancestor}
    while newer:
        newer = {pid for pid, parent in parents.items() if parent in newer} - descendants
        descendants |= newer
    return frozenset(descendants)


def marked(home: str) -> frozenset[int]:
    """Return all processes started for the daemon with this state directory, by any parent."""
    wanted = f"{HOME}={home}".encode()
    marked_pids = set()
    for pid in _every():
        with suppress(OSError):
            if wanted in (_PROC / str(pid) / "environ").read_bytes().split(b"\0"):
                marked_pids.add(pid)
    return frozenset(marked_pids - {os.getpid()})


def kill(pids: frozenset[int]) -> None:
    """Kill these processes at once."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
