"""A supervisor in a test, its processes, and the check that none remains."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
from twisted.internet.task import Clock

from merkatd.base.backoff import Backoff
from merkatd.platforms.processes import program
from merkatd.platforms.processes import program as program_module
from merkatd.platforms.processes.program import ProcessLimits, Program
from merkatd.platforms.processes.supervisor import Supervisor, UnexpectedEnd
from tests.bus.rig import until

BACKOFF_TRIES = 3
BACKOFF = Backoff(first_s=1.0, longest_s=8.0, retries=BACKOFF_TRIES)
FEW = 3
SLEEPS = "import time; print('here', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"
BRANCHED = (
    "import subprocess, sys\n"
    "nap = [sys.executable, '-S', '-c', 'import time; time.sleep(600)']\n"
    "subprocess.Popen(nap)\n"
    "subprocess.Popen(nap, start_new_session=True)\n" + SLEEPS
)
"""Has a child in its own session and one that left it."""


class Nursery:
    """A supervisor whose clock the test advances."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.clock: Any = Clock()
        self.ends: list[UnexpectedEnd] = []
        self.supervisor = self.another()

    def another(self) -> Supervisor:
        """Return a supervisor like that of a starting daemon."""
        rng = np.random.default_rng(1)
        return Supervisor(self.home, self.clock, rng, BACKOFF, self.ends.append)

    def program(self, code: str, **changes: Any) -> Program:
        """Return a Python program as a process of a platform."""
        bounds: dict[str, Any] = {"memory_bytes": 2**30, "cpu_s": 100, "files": 64}
        return Program(
            arguments=(sys.executable, "-S", "-c", code),
            environment={},
            secret="the secret",  # noqa: S106 - of a test
            log=str(self.home / "one.log"),
            log_bytes=10_000,
            logs=2,
            bounds=ProcessLimits(**(bounds | changes)),
        )

    async def started(self, code: str, name: str = "one", **changes: Any) -> int:
        """Start a process and wait for its first output; return its pid."""
        self.supervisor.start(name, self.program(code, **changes))
        await until(self.output, f"the first output of {name}")
        return self.supervisor.pids[name]

    def output(self) -> str:
        """Return the output so far."""
        try:
            return (self.home / "one.log").read_text()
        except FileNotFoundError:  # not yet written, or just renamed because it is full
            return ""

    @property
    def processes(self) -> frozenset[int]:
        """Return all processes wherever they went, except for the warden."""
        return program_module.marked(str(self.home)) - {self.supervisor.warden_pid or 0}


def in_nursery(home: Path, story: Callable[[Nursery], Coroutine[Any, Any, None]]) -> None:
    """Run a story; check that no process remains."""

    async def played() -> None:
        nursery = Nursery(home)
        try:
            await story(nursery)
        finally:
            nursery.supervisor.close()
            assert not program.marked(str(home))

    asyncio.run(played())
