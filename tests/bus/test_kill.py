"""Random kills of the daemon and its processes leave no process and repeat no action."""

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from merkatd.platforms.processes import program
from tests.bus import daemon_probe
from tests.daemon.processes import Program

PLATFORMS = 2
KILLS = int(os.environ.get("MERKAT_SOAK", "5"))
SEED = int(os.environ.get("MERKAT_SEED", "1"))
PATIENCE_S = 30.0
VICTIMS = ("daemon", "warden", "controller", "monitor", "daemon warden")

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
        assert time.monotonic() < ending_s, f"{what}: {(home / 'output').read_text()[-3000:]}"
        time.sleep(0.02)


def start_daemon(home: Path) -> Program:
    """Start a daemon."""
    return Program(home / "output", str(home), str(PLATFORMS), main=daemon_probe.main)


def kill_daemon(daemon: Program) -> None:
    """Kill a daemon, but not its processes."""
    if daemon.running:
        daemon.send(signal.SIGKILL)
    daemon.end()


def role_of(pid: int) -> str:
    """Return `warden`, `controller`, `monitor`, or "" for an ended process."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return ""
    if "merkatd.platforms.processes.warden" in words:
        return "warden"
    return words[3] if len(words) > 3 else ""


def processes_by_role(home: Path) -> dict[str, list[int]]:
    """Return all processes of the daemon, by role."""
    pids: dict[str, list[int]] = {}
    for pid in sorted(program.marked(str(home))):
        pids.setdefault(role_of(pid), []).append(pid)
    return pids


def complete(home: Path) -> bool:
    """Return whether exactly the expected processes run."""
    numbers = {name: len(pids) for name, pids in processes_by_role(home).items()}
    return numbers == {"warden": 1, "controller": PLATFORMS, "monitor": PLATFORMS}


def actions(home: Path) -> list[list[str]]:
    """Return the actions: platform, id, the controller's own count."""
    book = home / "actions"
    return [line.split() for line in book.read_text().splitlines()] if book.exists() else []


def await_actions(home: Path) -> None:
    """Wait until all processes run and each platform's controller has acted again."""
    until(lambda: complete(home), "all processes", home)
    before = len(actions(home))

    def acting() -> set[str]:
        return {platform for platform, *_ in actions(home)[before:]}

    until(lambda: len(acting()) == PLATFORMS, "an action of each", home)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """Yield a state directory with a site's own controller and monitor."""
    folder = tmp_path / "controllers"
    folder.mkdir()
    (folder / "counting.py").write_text(COUNTING)
    (folder / "ticking.py").write_text(TICKING)
    yield tmp_path
    program.kill(program.marked(str(tmp_path)))


@contextmanager
def running(home: Path) -> Iterator[list[Program]]:
    """Yield a list with a daemon, which the test may replace; kill it at the end."""
    daemon = [start_daemon(home)]
    try:
        yield daemon
    finally:
        kill_daemon(daemon[0])


def victims_in_turn(rng: random.Random) -> Iterator[str]:
    """Yield all victims in random order, again and again."""
    while True:
        yield from rng.sample(VICTIMS, len(VICTIMS))


def test_kills_leave_no_process_and_repeat_no_action(home: Path) -> None:
    """Daemon, warden, controllers and monitors are killed at any moment, alone and together."""
    rng = random.Random(SEED)  # noqa: S311 - of a test
    with running(home) as daemon:
        await_actions(home)
        for _, victims in zip(range(KILLS), victims_in_turn(rng), strict=False):
            if rng.random() < 0.3:
                await_actions(home)
            time.sleep(rng.uniform(0.0, 0.5))
            for victim in victims.split():
                if victim == "daemon":
                    kill_daemon(daemon[0])
                elif pids := processes_by_role(home).get(victim):
                    os.kill(rng.choice(pids), signal.SIGKILL)
            if "daemon" in victims:
                if rng.random() < 0.5:  # wait until all have ended, or restart at once
                    until(lambda: not program.marked(str(home)), "no process left", home)
                daemon[0] = start_daemon(home)
        await_actions(home)

        def watched(row: int) -> bool:
            kept = json.loads((home / f"memory-{row}").read_text())
            return bool(kept["seen"])

        until(lambda: all(map(watched, range(1, PLATFORMS + 1))), "word of each monitor", home)
    until(lambda: not program.marked(str(home)), "no process left", home)
    done = actions(home)
    for row in range(1, PLATFORMS + 1):
        counts = [int(count) for platform, _, count in done if platform == str(row)]
        steps = [after - before for before, after in pairwise(counts)]
        # Each controller continued its count. A controller that was killed between its action and
        # the storing of its memory repeats the count, as another action.
        assert counts[0] == 1
        assert set(steps) <= {0, 1}
        assert steps.count(0) <= KILLS


def test_a_killed_daemon_ends_all_its_processes(home: Path) -> None:
    """All processes end within seconds, although the daemon cannot send them a message."""
    with running(home) as daemon:
        await_actions(home)
        kill_daemon(daemon[0])
        killed_s = time.monotonic()
        until(lambda: not program.marked(str(home)), "no process left", home)
        assert time.monotonic() - killed_s < 5.0
