"""An embedded cloud as a separate process, with a client that waits."""

from __future__ import annotations

import signal
import tempfile
import time
import xmlrpc.client
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.daemon.processes import Program, until
from tests.embedded import launch

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SESSION = "oneadmin:secret"


class Remote:
    """A running process and calls to it."""

    def __init__(self, log: Path, *arguments: str) -> None:
        words = ("--listen", "127.0.0.1:0", "--password", "secret", *arguments)
        self.program = Program(log, *words, main=launch.main)
        until(lambda: "/RPC2\n" in self.program.output() or not self.program.running, "a cloud")
        self.endpoint = self.program.output().strip() if self.program.running else ""
        self.proxy = xmlrpc.client.ServerProxy(self.endpoint) if self.endpoint else None

    def raw(self, method: str, *arguments: Any, session: str = SESSION) -> Any:
        """Return the whole answer to a call."""
        assert self.proxy is not None, self.program.output()
        return getattr(self.proxy, method)(session, *arguments)

    def ok(self, method: str, *arguments: Any, session: str = SESSION) -> Any:
        """Return the value of a call that must succeed."""
        answer = self.raw(method, *arguments, session=session)
        assert answer[0] is True, answer
        return answer[1]

    def until_state(self, vm_id: int, state: str, lcm: str = "0") -> str:
        """Wait until a VM reaches a state; return its XML."""
        wanted = f"<STATE>{state}</STATE><LCM_STATE>{lcm}</LCM_STATE>"
        ending = time.monotonic() + 20
        while time.monotonic() < ending:
            text = str(self.ok("one.vm.info", vm_id))
            if wanted in text:
                return text
            time.sleep(0.02)
        raise AssertionError(text)

    def until_on(self, vm_id: int, host: int) -> None:
        """Wait until a VM runs on a host."""
        ending = time.monotonic() + 20
        while time.monotonic() < ending:
            read = self.ok("embedded.limits.read", [vm_id])
            if read and read[str(vm_id)]["host"] == host:
                return
            time.sleep(0.02)
        raise AssertionError(read)

    def kill(self) -> None:
        """Kill the process, as a power cut would."""
        self.program.kill()
        self._reap()

    def terminate(self, number: signal.Signals = signal.SIGTERM) -> int | None:
        """End the process as an administrator would, and return its exit code."""
        self.program.send(number)
        return self._reap()

    def _reap(self) -> int | None:
        code = self.program.end()
        if self.proxy is not None:
            self.proxy("close")()
        output = self.program.output()
        assert "Traceback" not in output, output
        return code


@contextmanager
def remote(*arguments: str) -> Iterator[Remote]:
    """Yield a process that is ended afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        running = Remote(Path(folder) / "log", *arguments)
        try:
            yield running
        finally:
            if running.program.running:
                running.kill()
