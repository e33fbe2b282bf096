"""The warden: the small parent process of all controllers and monitors, and of their log files.

It has one thread and little memory, so starting a process is cheap and safe whatever the daemon is
doing. The daemon and the warden exchange JSON objects, one a line, through a socket: the warden's
standard input. When the socket closes, however the daemon ended, the warden kills every process
below it. It adopts orphans of its children, so no process escapes. If the warden itself is killed,
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
from merkatd.platforms.processes.program import ProcessLimits
from merkatd.protocol.controller_kinds import SECRET_FD

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class RotatingFile:
    """A log file: when it is full it becomes NAME.1, and the old NAME.1 becomes NAME.2."""

    def __init__(self, path: Path, most_bytes: int, files: int) -> None:
        self._path = path
        self._most = most_bytes
        self._files = files
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._fd = os.open(path, _FLAGS, 0o600)
        self._size = os.fstat(self._fd).st_size

    def write(self, data: bytes) -> None:
        """Append to the file, which never grows beyond its limit.

        Raise OSError if the disk is full; the rest of the data is lost then.
        """
        while data:
            if self._size >= self._most:
                self._turn()
            now = data[: self._most - self._size]
            written = os.write(self._fd, now)
            self._size += written
            data = data[written:]

    def _turn(self) -> None:
        """Continue in a new file, which is opened before the full file is closed.

        If opening fails, the full file stays open. Otherwise the log would write to a closed
        descriptor, whose number may soon belong to another log, a pipe or a socket.
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
        """Close the file."""
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
    """The file descriptor from which its output is read."""
    log: RotatingFile
    kill_at_s: float | None = field(default=None)


class Warden:
    """Starts, watches and stops processes by the daemon's orders."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._said = b""
        self._children: dict[int, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self._woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        # A signal to all processes of the service must not end the warden: the daemon stops it.
        # The signals have handlers, as children would inherit ignored signals.
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self._selector.register(orders, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)

    def run(self) -> None:
        """Serve until the daemon is gone, then kill all processes."""
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
        ends = [child.kill_at_s for child in self._children.values() if child.kill_at_s is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _hear(self) -> bool:
        """Carry out the daemon's orders; return False once the connection has ended."""
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
            os.set_blocking(handing, False)  # a passport fits into the pipe: never wait here
            os.write(handing, order["secret"].encode())
            bounds, warden = ProcessLimits(**order["bounds"]), os.getpid()
            process = subprocess.Popen(  # noqa: S603 - the daemon chose it
                order["arguments"],
                env=order["environment"] | {SECRET_FD: str(secret)},
                stdin=subprocess.DEVNULL,
                stdout=saying,
                stderr=saying,
                pass_fds=(secret,),
                start_new_session=True,
                # Safe, as the warden has one thread: no lock can be held at the fork.
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
        """Write some of a child's output to its log; return False if none is left now."""
        try:
            data = os.read(child.output, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._let_be(child)
            return False
        with suppress(OSError):  # a full disk must not end any process
            child.log.write(data)
        return True

    def _let_be(self, child: _Child) -> None:
        """Stop reading a child's output, unless it was stopped before."""
        with suppress(KeyError):
            self._selector.unregister(child.output)

    def _end_late(self) -> None:
        now_s = time.monotonic()
        for child in self._children.values():
            if child.kill_at_s is not None and now_s >= child.kill_at_s:
                _end_group(child.process.pid)
                child.kill_at_s = None

    def _reap(self) -> None:
        """Report all children that have ended, and kill the processes that they left."""
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
            # Every other child of this process is an adopted orphan.
            program.kill(program.children_of(os.getpid()) - self._children.keys())

    def _part(self, child: _Child, code: int) -> None:
        child.process.returncode = code
        _end_group(child.process.pid)
        for _ in range(16):  # the last output; a pipe has room for no more
            if not self._keep(child):
                break
        self._let_be(child)
        os.close(child.output)
        child.log.close()
        self._tell(ended=child.name, pid=child.process.pid, code=code)

    def _tell(self, **message: Any) -> None:
        with suppress(OSError):
            self._orders.sendall(json.dumps(message).encode() + b"\n")


def _bind(bounds: ProcessLimits, warden: int) -> None:
    """Bind the new process to the warden's life, and set its resource limits."""
    _LIBC.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != warden:  # the warden was killed before the line above
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
    """Kill all descendants of this process, repeatedly, as a dying process may start others."""
    while pids := program.descendants_of(os.getpid()):
        program.kill(pids)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(_SWEEP_S)


def main() -> int:
    """Serve the daemon that is connected to standard input."""
    with socket.socket(fileno=os.dup(0)) as orders:
        os.set_inheritable(orders.fileno(), False)
        Warden(orders).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
