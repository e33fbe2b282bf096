"""The daemon's connection to its warden: orders out, reports on processes in, without blocking."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from merkatd.protocol.controller_kinds import HOME

_CHUNK = 1 << 16
_MODULE = "merkatd.platforms.processes.warden"


class WardenLink:
    """The connection to one warden process, from its start to its end."""

    def __init__(
        self,
        home: str,
        on_report: Callable[[Mapping[str, Any]], None],
        lost: Callable[[], None],
    ) -> None:
        """Start a warden. Raise OSError.

        `on_report` is called with each report, `lost` when the warden has ended unexpectedly.
        """
        self._on_report = on_report
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._line, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - a part of this program
                    [sys.executable, "-m", _MODULE],
                    stdin=theirs.fileno(),
                    env=os.environ | {HOME: home},
                    start_new_session=True,
                )
            except OSError:
                self._line.close()
                raise
        self._line.setblocking(False)
        self._out = b""
        self._in = b""
        self._loop.add_reader(self._line, self._read)

    @property
    def pid(self) -> int:
        """Return the id of the warden's process."""
        return self._process.pid

    def order(self, **order: Any) -> None:
        """Send an order to the warden."""
        self._out += json.dumps(order).encode() + b"\n"
        self._write()

    def end(self) -> None:
        """Stop the warden and all its processes, and wait for their end."""
        self._let_go()
        # The warden stops all processes when its connection closes.
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """Kill a warden that does not respond; it counts as lost."""
        self._process.kill()

    def _read(self) -> None:
        try:
            data = self._line.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, self._in = (self._in + data).split(b"\n")
        for line in lines:
            self._on_report(json.loads(line))
        if not data:
            self._let_go()
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self._lost()

    def _write(self) -> None:
        with suppress(BlockingIOError, OSError):  # the reader notices the warden's end
            self._out = self._out[self._line.send(self._out) :]
        if self._out:
            self._loop.add_writer(self._line, self._write)
        else:
            self._loop.remove_writer(self._line)

    def _let_go(self) -> None:
        self._loop.remove_reader(self._line)
        self._loop.remove_writer(self._line)
        self._line.close()
