"""Control groups of the tests' own: their weight on the machine, and one subtree a host.

Version 1 of control groups has a tree for each controller, version 2 one for all. Whoever is
in a group of version 2 may not have groups below it: hosts move into `inside` of theirs.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

TOP = Path("/sys/fs/cgroup")
PREFIX = "merkat-real-"
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio")
_WEIGHT_V1, _WEIGHT_V2 = 262_144, 10_000
"""The greatest there are: whatever else the machine does, the tests come first."""
_NORMAL_V1, _NORMAL_V2 = 1024, 100
"""Of every process that is in no group, and of groups of which nobody said anything."""
_LITTLE = 0.05
_PATIENCE_S = 60.0


def unified() -> bool:
    """Whether this machine has version 2 alone."""
    return (TOP / "cgroup.controllers").exists()


def trees() -> list[Path]:
    """The root of each tree that is used."""
    if unified():
        return [TOP]
    return [TOP / name for name in CONTROLLERS if (TOP / name / "cgroup.procs").exists()]


def make(group: str, *, heavy: bool = False) -> None:
    """Make a group in every tree; `heavy` ones come before all others beside them."""
    for tree in trees():
        place = tree / group
        place.mkdir(parents=True, exist_ok=True)
        if unified():
            _pass_on(place.parent)
        for name in ("cpuset.cpus", "cpuset.mems"):
            if tree.name == "cpuset":
                (place / name).write_text((place.parent / name).read_text())
        if heavy:
            for name, weight in (("cpu.shares", _WEIGHT_V1), ("cpu.weight", _WEIGHT_V2)):
                if (place / name).exists():
                    (place / name).write_text(str(weight))


def crowd() -> float:
    """How many want to run on this machine at the moment, whoever they are."""
    running, _, _ = Path("/proc/loadavg").read_text().split()[3].partition("/")
    return float(running)


def has_weight(group: str, crowd_there: float) -> bool:
    """Whether a heavy group gets all but a little of what it wants, among so many.

    The others count each by itself; beside another group that is as heavy it gets half.
    """
    heavy, normal = (_WEIGHT_V2, _NORMAL_V2) if unified() else (_WEIGHT_V1, _NORMAL_V1)
    return crowd_there * normal <= heavy * _LITTLE and left() == [group.partition("/")[0]]


def confine(group: str, cores: Iterable[int]) -> None:
    """Let what is in the group use these cores only."""
    tree = TOP if unified() else TOP / "cpuset"
    (tree / group / "cpuset.cpus").write_text(",".join(map(str, cores)))


def _pass_on(place: Path) -> None:
    for name in ("cpu", "cpuset", "memory"):
        with contextlib.suppress(OSError):
            (place / "cgroup.subtree_control").write_text(f"+{name}")


def members_files(group: str) -> list[Path]:
    """Where a process writes its id to come into the group."""
    return [tree / group / "cgroup.procs" for tree in trees()]


def enter(group: str) -> None:
    """Move this process into the group, in every tree."""
    for file in members_files(group):
        file.write_text(str(os.getpid()))


def left() -> list[str]:
    """The groups that exist, whoever made them: names directly below the roots."""
    found = {path.name for tree in trees() for path in tree.glob(f"{PREFIX}*")}
    return sorted(found)


def remove(group: str) -> None:
    """End whatever is in the group and below, then remove it; OSError where it stays."""
    ending = time.monotonic() + _PATIENCE_S
    while True:
        _kill(_members(group))
        try:
            for tree in trees():
                _remove_tree(tree / group)
        except OSError:
            if time.monotonic() > ending:
                raise
            time.sleep(0.05)
        else:
            return


def _members(group: str) -> Iterable[int]:
    for tree in trees():
        for file in (tree / group).rglob("cgroup.procs"):
            with contextlib.suppress(OSError):
                yield from map(int, file.read_text().split())


def _kill(processes: Iterable[int]) -> None:
    for process in set(processes) - {0, os.getpid()}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _remove_tree(place: Path) -> None:
    if place.exists():
        for below in [path for path in place.iterdir() if path.is_dir()]:
            _remove_tree(below)
        place.rmdir()
