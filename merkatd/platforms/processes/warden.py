"""The small process between the daemon and all it starts, and their log files.

It has one thread and little memory, so that starting a process is cheap and safe whatever the
daemon is doing. The daemon speaks to it through a socket, its standard input: a JSON object a
line, both ways. When that ends, however the daemon ended, it ends every process below it. It
adopts what its children leave behind, so that nobody gets away; and should it be killed itself,
the kernel kills its children.

Run as: python -m merkatd.platforms.processes.warden
"""

import ctypes
import json
import os
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from merkatd.platforms.processes import program
from merkatd.platforms.processes.program import Bounds
from merkatd.protocol.controller_kinds import SECRET_FD

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class RotatingFile:
    """Takes bytes; when it is full it becomes NAME.1, and what was NAME.1 becomes NAME.2."""

    def __init__(self, path: Path, most_bytes: int, files: int) -> None:
        self._path = path
        self._most = most_bytes
        self._files = files
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._fd = os.open(path, _FLAGS, 0o600)
        self._size = os.fstat(self._fd).st_size

    def write(self, data: bytes) -> None:
        """Append to the file, which never becomes larger than its bound.

        Raise OSError where the disk takes no more; what is left of the data is lost then.
        """
        while data:
            if self._size >= self._most:
                self._turn()
            now = data[: self._most - self._size]
            written = os.write(self._fd, now)
            self._size += written
            data = data[written:]

    def _turn(self) -> None:
        """Continue in a new file, which is opened before the full one is closed.

        Where that fails, the full file stays open: the number of a closed descriptor soon belongs
        to another log, to a pipe or to a socket of this process.
        """
        following = self._path.with_name(f"{self._path.name}.new")
        opened = os.open(following, _FLAGS | os.O_TRUNC, 0o600)
        try:
            for number in range(self._files - 1, 0, -1):
                newer = self._numbered(number - 1)
                if newer.exists():
                    newer.replace(self._numbered(number))
            following.replace(self._path)
        except BaseException:
            os.close(opened)
            raise
        full, self._fd, self._size = self._fd, opened, 0
        os.close(full)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def close(self) -> None:
        """Write no more."""
        closing, self._fd = self._fd, -1
        os.close(closing)


_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36
_CHUNK = 1 << 16
_LONGEST_LINE = 1 << 20
_SWEEP_S = 0.02
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(slots=True)
class _Child:
    name: str
    process: "subprocess.Popen[bytes]"
    output: int
    """The reading end of what it says."""
    log: RotatingFile
    kill_at_s: float | None = field(default=None)


class Warden:
    """Starts, watches and ends processes as it is told."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._said = b""
        self._children: dict[int, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        # Whoever ends all processes of a service leaves these to the daemon. Not ignored: what is
        # ignored here would be in the children, too.
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self._selector.register(orders, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def run(self) -> None:
        """Until the daemon is gone; then nobody is left."""
        _LIBC.prctl(_SET_SUBREAPER, 1, 0, 0, 0)
        try:
            while self._turn():
                pass
        finally:
            end_all()

    def _turn(self) -> bool:
        for key, _ in self._selector.select(self._wait_s()):
            if key.fileobj is self._orders:
                if not self._hear():
                    return False
            elif key.fd == self._woken:
                with suppress(BlockingIOError):
                    os.read(self._woken, _CHUNK)
            else:
                self._keep(key.data)
        self._end_late()
        self._reap()
        return True

    def _wait_s(self) -> float | None:
        ends = [one.kill_at_s for one in self._children.values() if one.kill_at_s is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _hear(self) -> bool:
        """Do what the daemon says; False where it says no more."""
        try:
            data = self._orders.recv(_CHUNK)
        except OSError:
            return False
        *lines, self._said = (self._said + data).split(b"\n")
        for line in lines:
            self._obey(json.loads(line))
        return bool(data) and len(self._said) <= _LONGEST_LINE

    def _obey(self, order: dict[str, Any]) -> None:
        if "start" in order:
            try:
                self._start(order["start"], order)
            except (OSError, subprocess.SubprocessError, ValueError) as error:
                self._tell(failed=order["start"], why=str(error))
        else:
            self._stop(order["stop"], order["grace_s"])

    def _start(self, name: str, order: dict[str, Any]) -> None:
        with ExitStack() as handed, ExitStack() as ours:
            log = RotatingFile(Path(order["log"]), order["log_bytes"], order["logs"])
            ours.callback(log.close)
            secret, handing = os.pipe2(os.O_CLOEXEC)
            for fd in (secret, handing):
                handed.callback(os.close, fd)
            output, saying = os.pipe2(os.O_CLOEXEC)
            handed.callback(os.close, saying)
            ours.callback(os.close, output)
            os.set_blocking(handing, False)  # a passport fits, and nobody is waited for
            os.write(handing, order["secret"].encode())
            bounds, warden = Bounds(**order["bounds"]), os.getpid()
            process = subprocess.Popen(  # noqa: S603 - the daemon chose it
                order["arguments"],
                env=order["environment"] | {SECRET_FD: str(secret)},
                stdin=subprocess.DEVNULL,
                stdout=saying,
                stderr=saying,
                pass_fds=(secret,),
                start_new_session=True,
                # One thread only: nothing can be locked at the fork.
                preexec_fn=lambda: _bind(bounds, warden),  # noqa: PLW1509
            )
            ours.pop_all()
        os.set_blocking(output, False)
        child = _Child(name, process, output, log)
        self._children[process.pid] = child
        self._selector.register(output, selectors.EVENT_READ, child)
        self._tell(started=name, pid=process.pid)

    def _stop(self, name: str, grace_s: float) -> None:
        for child in self._children.values():
            if child.name == name:
                child.kill_at_s = time.monotonic() + grace_s
                with suppress(ProcessLookupError):
                    os.killpg(child.process.pid, signal.SIGTERM)

    def _keep(self, child: _Child) -> bool:
        """Keep some of what a child said; False where there is no more now."""
        try:
            data = os.read(child.output, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._let_be(child)
            return False
        with suppress(OSError):  # a full disk ends nobody
            child.log.write(data)
        return True

    def _let_be(self, child: _Child) -> None:
        """Listen to a child no more, if that was not so already."""
        with suppress(KeyError):
            self._selector.unregister(child.output)

    def _end_late(self) -> None:
        now_s = time.monotonic()
        for child in self._children.values():
            if child.kill_at_s is not None and now_s >= child.kill_at_s:
                _end_group(child.process.pid)
                child.kill_at_s = None

    def _reap(self) -> None:
        """Take leave of all that have ended, and end what they leave behind."""
        ended = False
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            ended = True
            child = self._children.pop(pid, None)
            if child is not None:
                self._part(child, os.waitstatus_to_exitcode(status))
        if ended:
            # Nobody but those who were started is a child of this one by right.
            program.kill(program.children_of(os.getpid()) - self._children.keys())

    def _part(self, child: _Child, code: int) -> None:
        child.process.returncode = code
        _end_group(child.process.pid)
        for _ in range(16):  # what was said last; a pipe holds no more
            if not self._keep(child):
                break
        self._let_be(child)
        os.close(child.output)
        child.log.close()
        self._tell(ended=child.name, pid=child.process.pid, code=code)

    def _tell(self, **said: Any) -> None:
        with suppress(OSError):
            self._orders.sendall(json.dumps(said).encode() + b"\n")


def _bind(bounds: Bounds, warden: int) -> None:
    """In the new process: never outlive the warden, never take more than is allowed."""
    _LIBC.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != warden:  # it was killed before this was known
        os._exit(1)
    os.nice(bounds.nice)
    for what, most in (
        (resource.RLIMIT_AS, bounds.memory_bytes),
        (resource.RLIMIT_CPU, bounds.cpu_s),
        (resource.RLIMIT_NOFILE, bounds.files),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (least, least))


def _end_group(leader: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def end_all() -> None:
    """End everything below this process; what a dying one starts is found at the next look."""
    while found := program.descendants_of(os.getpid()):
        program.kill(found)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(_SWEEP_S)


def main() -> int:
    """Serve the daemon at the other end of standard input."""
    with socket.socket(fileno=os.dup(0)) as orders:
        os.set_inheritable(orders.fileno(), False)
        Warden(orders).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
