"""An embedded cloud as a separate process, with a client that waits."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import xmlrpc.client
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SESSION = "oneadmin:secret"


class Remote:
    """A running process and calls to it."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-W", "error", "-m", "tests.embedded.launch"),
                *("--listen", "127.0.0.1:0", "--password", "secret"),
                *arguments,
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.endpoint = self.process.stdout.readline().strip()
        self.proxy = xmlrpc.client.ServerProxy(self.endpoint) if self.endpoint else None

    def raw(self, method: str, *arguments: Any, session: str = SESSION) -> Any:
        """Return the whole answer to a call."""
        assert self.proxy is not None, self.process.communicate()[1]
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
        self.process.kill()
        self._reap()

    def terminate(self, number: int = signal.SIGTERM) -> int:
        """End the process as an administrator would, and return its exit code."""
        self.process.send_signal(number)
        return self._reap()

    def _reap(self) -> int:
        _, errors = self.process.communicate(timeout=20)
        if self.proxy is not None:
            self.proxy("close")()
        assert "Traceback" not in errors, errors
        return self.process.returncode


@contextmanager
def remote(*arguments: str) -> Iterator[Remote]:
    """Yield a process that is ended afterwards."""
    running = Remote(*arguments)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.kill()
