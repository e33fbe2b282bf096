"""Commands of merkatd as process groups, and waits for their results.

Each is forked from a server that has imported everything, because the tests start and kill dozens
of daemons and imports would be most of a start.
"""

import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.connection import arbitrary_address  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any, TypeVar

from tests.daemon import creating

Met = TypeVar("Met")

PATIENCE_S = 120.0
"""For slow or loaded machines; the wait usually ends in a second or two."""
TICK_S = 0.02

_FORKS = multiprocessing.get_context("forkserver")
# The command line imports each command only on use.
_FORKS.set_forkserver_preload(
    [
        __name__,
        "merkatd.commands.programs.embedded_command",
        "merkatd.commands.programs.run_command",
    ]
)


def fork_server_here() -> None:
    """Fork the server from this process, whose modules need not be imported again."""
    server: Any = forkserver._forkserver
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(arbitrary_address("AF_UNIX"))
        listener.listen()
        alive, server._forkserver_alive_fd = os.pipe()
        server._forkserver_address = listener.getsockname()
        server._forkserver_pid = os.fork()
        if server._forkserver_pid == 0:
            try:
                os.close(server._forkserver_alive_fd)
                forkserver.main(listener.detach(), alive, server._preload_modules)
            finally:
                os._exit(0)
        os.close(alive)


def until(
    met: Callable[[], Met],
    what: str,
    meanwhile: Callable[[], None] = lambda: None,
    tick_s: float = TICK_S,
) -> Met:
    """Wait until a condition is met; act meanwhile; raise AssertionError after the time limit."""
    ending = time.monotonic() + PATIENCE_S
    while not (answer := met()):
        assert time.monotonic() < ending, f"{what}: not within {PATIENCE_S:g} s"
        meanwhile()
        time.sleep(tick_s)
    return answer


class Program:
    """A started command with its output at the end of a file."""

    def __init__(
        self, log: Path, *words: str, main: Callable[[tuple[str, ...]], int] = creating.main
    ) -> None:
        self._log = log
        log.touch()
        self._size_before = log.stat().st_size
        self._process = _FORKS.Process(target=_run, args=(log, words, main))
        self._process.start()

    @property
    def running(self) -> bool:
        """Return whether the process has not ended."""
        return self._process.is_alive()

    def output(self) -> str:
        """Return this program's output until now."""
        return self._log.read_bytes()[self._size_before :].decode()

    def until_output(self, text: str) -> None:
        """Wait for a text; raise AssertionError if the process ends without it."""
        until(lambda: text in self.output() or not self.running, f"the text {text!r}")
        assert text in self.output(), self.output()

    def kill(self) -> None:
        """End the process and its children as a power cut would."""
        if self.running:
            self._process.kill()
            with contextlib.suppress(ProcessLookupError):  # the process has no group yet
                os.killpg(self.pid, signal.SIGKILL)
        self._process.join(PATIENCE_S)

    def tell_to_end(self) -> None:
        """Send SIGTERM."""
        self.send(signal.SIGTERM)

    def reload(self) -> None:
        """Send SIGHUP."""
        self.send(signal.SIGHUP)

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def end(self) -> int | None:
        """Wait for the process to end; return its exit code, or None after the time limit."""
        self._process.join(PATIENCE_S)
        return self._process.exitcode

    @property
    def pid(self) -> int:
        """Return the id of the process and of its group."""
        assert self._process.pid is not None
        return self._process.pid


def _run(log: Path, words: tuple[str, ...], main: Callable[[tuple[str, ...]], int]) -> None:
    """Run the command in the new process, as a shell would."""
    os.setsid()
    out = os.open(log, os.O_RDWR if log.is_char_device() else os.O_WRONLY | os.O_APPEND)
    for number in (1, 2):
        os.dup2(out, number)
    os.close(out)
    # The streams of the server remember what they wrote to: a terminal, or a file with a position.
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - no path, and never closed
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    warnings.simplefilter("error")
    sys.exit(main(words))
