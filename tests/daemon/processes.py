"""Commands of merkatd as process groups of their own, and waiting for what they do.

Each is forked from a server that has imported everything: dozens of daemons are started and
killed, and all but a few hundredths of a second of a start would be imports.
"""

import contextlib
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.daemon import creating

Met = TypeVar("Met")

PATIENCE_S = 120.0
"""Machines may be slow and have much else to do; what is awaited comes in a second or two."""
TICK_S = 0.02

_FORKS = multiprocessing.get_context("forkserver")
# The command line imports a command when it is given.
_FORKS.set_forkserver_preload(
    [
        __name__,
        "merkatd.commands.programs.embedded_command",
        "merkatd.commands.programs.run_command",
    ]
)


def until(
    met: Callable[[], Met],
    what: str,
    meanwhile: Callable[[], None] = lambda: None,
    tick_s: float = TICK_S,
) -> Met:
    """Wait for what is true, and do something meanwhile; AssertionError where nothing ever is."""
    ending = time.monotonic() + PATIENCE_S
    while not (found := met()):
        assert time.monotonic() < ending, f"{what}: not within {PATIENCE_S:g} s"
        meanwhile()
        time.sleep(tick_s)
    return found


class Program:
    """One command, started; all that it says goes to the end of a file."""

    def __init__(self, log: Path, *words: str) -> None:
        self._log = log
        log.touch()
        self._said_before = log.stat().st_size
        self._process = _FORKS.Process(target=_run, args=(log, words))
        self._process.start()

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.is_alive()

    def said(self) -> str:
        """What this one said until now."""
        return self._log.read_bytes()[self._said_before :].decode()

    def until_said(self, text: str) -> None:
        """Wait for a text; AssertionError where the process ends without it."""
        until(lambda: text in self.said() or not self.running, f"{text!r} said")
        assert text in self.said(), self.said()

    def kill(self) -> None:
        """End it, and all that it started, as a power cut would."""
        if self.running:
            self._process.kill()
            with contextlib.suppress(ProcessLookupError):  # it has no group of its own yet
                os.killpg(self._pid, signal.SIGKILL)
        self._process.join(PATIENCE_S)

    def tell_to_end(self) -> None:
        """Send SIGTERM."""
        os.kill(self._pid, signal.SIGTERM)

    def end(self) -> int | None:
        """The exit code, once it has ended by itself; None where it does not."""
        self._process.join(PATIENCE_S)
        return self._process.exitcode

    @property
    def _pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid


def _run(log: Path, words: tuple[str, ...]) -> None:
    """In the new process: the command, as if it had been given in a shell."""
    os.setsid()
    out = os.open(log, os.O_WRONLY | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(out, stream.fileno())
    os.close(out)
    warnings.simplefilter("error")
    sys.exit(creating.main(words))
