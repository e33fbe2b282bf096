"""A demo in its own process, and its output."""

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO

from merkatd import cli
from tests.daemon.processes import Program

USUAL_TERMINAL: Mapping[str, str] = MappingProxyType({"TERM": "xterm-256color"})


class Running:
    """A running demo with its output in a pipe or on a terminal."""

    def __init__(self, program: Program, pipe: BinaryIO | None) -> None:
        self._program = program
        self._pipe = pipe
        self._seen = b""

    @property
    def pid(self) -> int:
        """Return the id of the process and of its group."""
        return self._program.pid

    def until(self, text: str) -> None:
        """Read until a line contains this text."""
        assert self._pipe is not None
        for line in self._pipe:
            self._seen += line
            if text.encode() in line:
                return
        raise AssertionError(self._seen.decode())

    def rest(self) -> str:
        """Return the whole output once the demo has ended."""
        if self._pipe is not None:
            self._seen += self._pipe.read()
        return self._seen.decode()

    def close_output(self) -> None:
        """Close the pipe of the output."""
        assert self._pipe is not None
        self._pipe.close()

    def interrupt(self) -> None:
        """Interrupt the demo as Ctrl-C does."""
        self.signal(signal.SIGINT)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._program.send(number)

    def end(self) -> int | None:
        """Wait for the demo to end; return its exit code."""
        return self._program.end()


def _run_on_terminal(environment: Mapping[str, str], words: Sequence[str]) -> int:
    """Run a command whose input is the terminal of its output."""
    os.dup2(1, 0)
    for name in ("COLORTERM", "NO_COLOR"):
        os.environ.pop(name, None)
    os.environ.update(environment)
    return _run(words)


def _run(words: Sequence[str]) -> int:
    """Run a command with its temporary files in a folder."""
    tempfile.tempdir = words[0]
    return cli.main(words[1:])


@contextlib.contextmanager
def started(
    place: Path,
    *words: str,
    terminal: int | None = None,
    environment: Mapping[str, str] = USUAL_TERMINAL,
) -> Iterator[Running]:
    """Start a demo with its temporary files in a folder; kill it afterwards."""
    arguments = (str(place), "demo", *words)
    with contextlib.ExitStack() as stack:
        if terminal is not None:
            run = partial(_run_on_terminal, dict(environment))
            program = Program(Path(os.ttyname(terminal)), *arguments, main=run)
            pipe = None
        else:
            file = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "pipe"
            os.mkfifo(file)
            program = Program(file, *arguments, main=_run)
            pipe = stack.enter_context(file.open("rb"))
        stack.callback(program.kill)
        yield Running(program, pipe)
