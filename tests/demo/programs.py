"""A demo in its own process, and its output."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE_S = 30.0


class Running:
    """A running demo with its output in a pipe or on a terminal."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._seen = b""

    @property
    def pid(self) -> int:
        """Return the id of the process and of its group."""
        return self._process.pid

    def until(self, text: str) -> None:
        """Read until a line contains this text."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._seen += line
            if text.encode() in line:
                return
        raise AssertionError(self._seen.decode())

    def rest(self) -> str:
        """Return the whole output once the demo has ended."""
        if self._process.stdout is not None:
            self._seen += self._process.stdout.read()
        return self._seen.decode()

    def close_output(self) -> None:
        """Close the pipe of the output."""
        assert self._process.stdout is not None
        self._process.stdout.close()

    def interrupt(self) -> None:
        """Interrupt the demo as Ctrl-C does."""
        self.signal(signal.SIGINT)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def end(self) -> int:
        """Wait for the demo to end; return its exit code."""
        return self._process.wait(PATIENCE_S)


@contextlib.contextmanager
def started(place: Path, *words: str, terminal: int | None = None) -> Iterator[Running]:
    """Start a demo with its temporary files in a folder; kill it afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "merkatd.cli", "demo", *words],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(place), "NUMBA_DISABLE_JIT": "1"},
        stdin=subprocess.DEVNULL if terminal is None else terminal,
        stdout=subprocess.PIPE if terminal is None else terminal,
        stderr=subprocess.STDOUT if terminal is None else terminal,
        start_new_session=True,
    )
    try:
        yield Running(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
