"""The administrator's commands that switch hosts off and on."""

import io
import os
import re
import select
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase

from twisted.internet.defer import CancelledError

from merkatd.base.clock import Executor

_LONGEST = 2_000
"""The part of a command's output that its error shows, in bytes."""
_READ = 65_536
_LOOK_S = 0.2
"""The interval at which a command without output is watched."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*", re.ASCII)
"""Names of hosts that are put into commands: none can be taken for an option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSettings:
    """Hosts that may sleep while a strategy does not need them."""

    hosts: frozenset[str] | None = None
    """Patterns of the names of hosts that may be switched off, such as "rack7-*". No host by
    default."""
    sleep: str = ""
    """The command that switches a host off, with {host} for its name and {id} for its id. It must
    leave the disks of the host's VMs alone. Example: "ssh root@{host} systemctl poweroff"."""
    wake: str = ""
    """The command that switches a host on, such as "ipmitool -H {host}-bmc chassis power on"."""
    limit_s: float = 60.0
    """The time after which a command that goes on is killed. A host may boot for longer than that:
    `period.boot_limit`."""


class PowerCommands:
    """Switches hosts by commands; implements `merkatd.scheduler.base.power_port.PowerPort`."""

    def __init__(self, settings: PowerSettings, executor: Executor) -> None:
        """The commands run on `executor`, and may take all of their time."""
        self.settings = settings
        self._executor = executor

    def serves(self, host: str) -> bool:
        """Return whether the settings name the host."""
        return _NAME.fullmatch(host) is not None and any(
            fnmatchcase(host, pattern) for pattern in self.settings.hosts or ()
        )

    async def sleep(self, host: int, name: str) -> str:
        """Switch a host off; return why it failed, "" if it did not."""
        return await self._switched(self.settings.sleep, host, name)

    async def wake(self, host: int, name: str) -> str:
        """Switch a host on; return why it failed, "" if it did not."""
        return await self._switched(self.settings.wake, host, name)

    async def _switched(self, command: str, host: int, name: str) -> str:
        """Run a command, and end it if the step is cancelled: another daemon acts by then."""
        given_up = threading.Event()
        try:
            return await self._executor.run(lambda: self._run(command, host, name, given_up))
        except CancelledError:
            given_up.set()
            raise

    def _run(self, command: str, host: int, name: str, given_up: threading.Event) -> str:
        words = [word.format(host=name, id=host) for word in shlex.split(command)]
        if not self.serves(name) or not words:
            return f"no command switches host {name}"
        if given_up.is_set():
            return "given up"
        limit_s = self.settings.limit_s
        try:
            output, code = _run_to_end(words, limit_s, given_up)
        except (OSError, ValueError) as error:
            return f"{words[0]}: {error}"
        if code is None:
            return f"{words[0]} did not end within {limit_s:g} s"
        said = " ".join(output.decode(errors="replace").split())
        return f"{words[0]}: {said or f'exit code {code}'}" if code else ""


def _run_to_end(
    words: Sequence[str], limit_s: float, given_up: threading.Event
) -> tuple[bytes, int | None]:
    """Return the beginning of a command's output, errors included, and its exit code.

    The code is None if the command did not end in time. Other programs may hold its output open for
    longer, so the end of the command counts and not that of its output.
    """
    source, sink = os.pipe()
    with io.FileIO(source, "r") as stream:
        with io.FileIO(sink, "w") as output:
            process = subprocess.Popen(  # noqa: S603 - the administrator's, with a checked name
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        until_s = time.monotonic() + limit_s
        return _followed(
            process,
            _Output(stream),
            lambda: given_up.is_set() or time.monotonic() >= until_s,
        )


def _followed(
    process: subprocess.Popen[bytes], output: "_Output", is_over: Callable[[], bool]
) -> tuple[bytes, int | None]:
    """Wait for the end of a command, and kill it once its time is over."""
    while True:
        code = process.poll()
        more = output.read(0.0 if code is not None else _LOOK_S)
        late = is_over()
        if code is not None and (late or not more):
            return output.kept, code
        if late:
            _kill(process)
            return output.kept, None
        if output.ended:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_S)


class _Output:
    """The output of a command; only its beginning is kept."""

    def __init__(self, stream: io.FileIO) -> None:
        self.kept = b""
        self.ended = False
        """Whether no program can write to it any more."""
        self._stream = stream
        self._ready = select.poll()
        self._ready.register(stream, select.POLLIN)

    def read(self, wait_s: float) -> bool:
        """Read what comes within this time; return whether there may be more.

        All output is read: the command would wait for its reader.
        """
        if self.ended or not self._ready.poll(wait_s * 1000):
            return False
        part = self._stream.read(_READ)
        self.ended = not part
        self.kept = (self.kept + (part or b""))[:_LONGEST]
        return not self.ended


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a command with its children; it goes on if it runs as another user."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    # An ended process remains in the system's table until it is waited for.
    threading.Thread(target=process.wait, name="ended command", daemon=True).start()
