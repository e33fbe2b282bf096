"""Killed at random, daemon, warden, controllers and monitors leave nobody and double nothing."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from merkatd.platforms.processes import program

ROOT = Path(__file__).parents[2]
PLATFORMS = 2
KILLS = int(os.environ.get("MERKAT_SOAK", "10"))
SEED = int(os.environ.get("MERKAT_SEED", "1"))
PATIENCE_S = 30.0

COUNTING = """
from controllers.controller import Controller

class Counting(Controller):
    async def on_start(self):
        self.memory.setdefault("count", 0)
        self.memory.setdefault("seen", 0)

    async def on_progress(self, measured):
        self.memory["seen"] += 1

    async def on_price(self, news):
        self.memory["count"] += 1
        await self.set_size("workers", 1, reason=str(self.memory["count"]))
"""
TICKING = """
import time
from controllers.monitors.monitor import Monitor

class Ticking(Monitor):
    async def look(self):
        return time.time(), {"tick": 1.0}
"""


def until(met: Callable[[], object], what: str, home: Path) -> None:
    """Wait for a condition."""
    ending_s = time.monotonic() + PATIENCE_S
    while not met():
        assert time.monotonic() < ending_s, f"{what}: {(home / 'said').read_text()[-3000:]}"
        time.sleep(0.02)


def daemon(home: Path) -> "subprocess.Popen[bytes]":
    """Start one."""
    with (home / "said").open("ab") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.bus.daemon_probe", str(home), str(PLATFORMS)],
            cwd=ROOT,
            stdout=said,
            stderr=said,
        )


def role(pid: int) -> str:
    """What a process is: `warden`, `controller`, `monitor`, or nothing any more."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return ""
    if "merkatd.platforms.processes.warden" in words:
        return "warden"
    return words[3] if len(words) > 3 else ""


def present(home: Path) -> dict[str, list[int]]:
    """All processes of the daemon, by role."""
    found: dict[str, list[int]] = {}
    for pid in sorted(program.marked(str(home))):
        found.setdefault(role(pid), []).append(pid)
    return found


def complete(home: Path) -> bool:
    """Whether everybody is there, and nobody else."""
    numbers = {name: len(pids) for name, pids in present(home).items()}
    return numbers == {"warden": 1, "controller": PLATFORMS, "monitor": PLATFORMS}


def actions(home: Path) -> list[list[str]]:
    """What was done: platform, id, the controller's own count."""
    book = home / "actions"
    return [line.split() for line in book.read_text().splitlines()] if book.exists() else []


def at_work(home: Path) -> None:
    """Until all are there and each platform's controller has done something more."""
    until(lambda: complete(home), "all processes", home)
    before = len(actions(home))

    def heard_of() -> set[str]:
        return {platform for platform, *_ in actions(home)[before:]}

    until(lambda: len(heard_of()) == PLATFORMS, "an action of each", home)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A state directory with a site's own controller and monitor."""
    folder = tmp_path / "controllers"
    folder.mkdir()
    (folder / "counting.py").write_text(COUNTING)
    (folder / "ticking.py").write_text(TICKING)
    yield tmp_path
    program.kill(program.marked(str(tmp_path)))


@contextmanager
def running(home: Path) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """A daemon, which can be replaced in the list; killed at the end."""
    one = [daemon(home)]
    try:
        yield one
    finally:
        one[0].kill()
        one[0].wait()


def test_whoever_is_killed_nobody_is_left_over_and_nothing_is_done_twice(home: Path) -> None:
    """Daemon, warden, controllers and monitors, at any moment, alone and together."""
    rng = random.Random(SEED)  # noqa: S311 - of a test
    with running(home) as one:
        at_work(home)
        for _ in range(KILLS):
            if rng.random() < 0.3:
                at_work(home)
            time.sleep(rng.uniform(0.0, 0.5))
            victims = rng.choice(["daemon", "warden", "controller", "monitor", "daemon warden"])
            for victim in victims.split():
                if victim == "daemon":
                    one[0].kill()
                elif pids := present(home).get(victim):
                    os.kill(rng.choice(pids), signal.SIGKILL)
            if "daemon" in victims:
                one[0].wait()
                if rng.random() < 0.5:  # seen through to the end, or started again at once
                    until(lambda: not program.marked(str(home)), "nobody left", home)
                one[0] = daemon(home)
        at_work(home)

        def watched(row: int) -> bool:
            kept = json.loads((home / f"memory-{row}").read_text())
            return bool(kept["seen"])

        until(lambda: all(map(watched, range(1, PLATFORMS + 1))), "word of each monitor", home)
    until(lambda: not program.marked(str(home)), "nobody left", home)
    done = actions(home)
    for row in range(1, PLATFORMS + 1):
        counts = [int(count) for platform, _, count in done if platform == str(row)]
        steps = [after - before for before, after in pairwise(counts)]
        # Each went on from where it was. One that was killed after it had acted and before it
        # could have had that remembered asks again, which is another action; nobody else does.
        assert counts[0] == 1
        assert set(steps) <= {0, 1}
        assert steps.count(0) <= KILLS


def test_a_daemon_that_is_killed_takes_everybody_along(home: Path) -> None:
    """At once, though nobody could tell them."""
    with running(home) as one:
        at_work(home)
        one[0].kill()
        one[0].wait()
        killed_s = time.monotonic()
        until(lambda: not program.marked(str(home)), "nobody left", home)
        assert time.monotonic() - killed_s < 5.0
