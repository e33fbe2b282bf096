"""The tests' own control groups: their weight on the machine, and one subtree for each host.

Version 1 of control groups has a tree for each controller, version 2 one tree for all. In version 2
a group that contains processes can't have subgroups, so the processes of a host move into its group
`inside`.
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
"""The greatest weights: the tests come before everything else on the machine."""
_NORMAL_V1, _NORMAL_V2 = 1024, 100
"""The weights of processes outside of groups, and the default weights of groups."""
_LITTLE = 0.05
_PATIENCE_S = 60.0


def unified() -> bool:
    """Return whether this machine has only version 2."""
    return (TOP / "cgroup.controllers").exists()


def trees() -> list[Path]:
    """Return the root of each tree that is used."""
    if unified():
        return [TOP]
    return [TOP / name for name in CONTROLLERS if (TOP / name / "cgroup.procs").exists()]


def make(group: str, *, heavy: bool = False) -> None:
    """Create a group in every tree; a `heavy` group has the greatest weight."""
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
    """Return the number of all processes on this machine that want to run now."""
    running, _, _ = Path("/proc/loadavg").read_text().split()[3].partition("/")
    return float(running)


def has_weight(group: str, crowd_there: float) -> bool:
    """Return whether a heavy group gets nearly all that it wants among this many processes.

    Each of the other processes counts by itself. Beside another group of the same weight, a heavy
    group gets half.
    """
    heavy, normal = (_WEIGHT_V2, _NORMAL_V2) if unified() else (_WEIGHT_V1, _NORMAL_V1)
    return crowd_there * normal <= heavy * _LITTLE and left() == [group.partition("/")[0]]


def confine(group: str, cores: Iterable[int]) -> None:
    """Let the processes of the group use only these cores."""
    tree = TOP if unified() else TOP / "cpuset"
    (tree / group / "cpuset.cpus").write_text(",".join(map(str, cores)))


def _pass_on(place: Path) -> None:
    for name in ("cpu", "cpuset", "memory"):
        with contextlib.suppress(OSError):
            (place / "cgroup.subtree_control").write_text(f"+{name}")


def members_files(group: str) -> list[Path]:
    """Return the files to which a process writes its id to join the group."""
    return [tree / group / "cgroup.procs" for tree in trees()]


def enter(group: str) -> None:
    """Move this process into the group, in every tree."""
    for file in members_files(group):
        file.write_text(str(os.getpid()))


def left() -> list[str]:
    """Return the existing groups of all runs: names directly below the roots."""
    names = {path.name for tree in trees() for path in tree.glob(f"{PREFIX}*")}
    return sorted(names)


def remove(group: str) -> None:
    """End all processes in the group and below it, and remove it. Raise OSError if it stays."""
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
