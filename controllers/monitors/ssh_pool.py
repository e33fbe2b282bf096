"""SSH connections to VMs: a pool of threads, and one persistent connection for each VM.

A VM's host key is known before its first boot, as contextualisation installs it: a server with
another host key is refused. Monitors log in with their own key only, without passwords or agents.
Every operation has a time limit, and a VM that does not answer blocks one thread, not the others.
A server that sends malformed bytes is a failure of its own VM only.
"""

import asyncio
import contextlib
import io
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import paramiko

MOST_BYTES: Final = 1 << 20
"""The length at which an answer is cut off."""
_CHUNK: Final = 1 << 15
_GRACE_S: Final = 1.0
"""The time after a command's limit at which the whole connection is closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshTarget:
    """The address of a VM, and its expected host key."""

    address: str
    port: int = 22
    user: str = "root"
    host_key: str = ""
    """Its public key in OpenSSH's format `TYPE BASE64`; without it, every server is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshLimits:
    """The number of threads, and the time limits of connections and commands."""

    pool: int = 20
    connect_s: float = 10.0
    command_s: float = 20.0


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command."""

    status: int
    out: bytes
    error: bytes


@dataclass(frozen=True, slots=True)
class CommandFailure:
    """A failure to run a command; `stranger`: a server with another host key answered."""

    why: str
    stranger: bool = False


Heard = CommandResult | CommandFailure


def key_of(text: str) -> paramiko.PKey:
    """Parse a private key in OpenSSH's format. Raise ValueError if it is invalid."""
    try:
        return paramiko.Ed25519Key.from_private_key(io.StringIO(text))
    except (paramiko.SSHException, ValueError) as error:
        raise ValueError(f"invalid Ed25519 key: {error}") from None


class SshPool:
    """The threads and connections to VMs; `close` ends all of them."""

    def __init__(self, key: paramiko.PKey, limits: SshLimits) -> None:
        self._key = key
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.pool, thread_name_prefix="ssh")
        self._lines: dict[int, _SshConnection] = {}
        self._lock = threading.Lock()

    async def ask(
        self, places: Mapping[int, SshTarget], command: Callable[[int], str]
    ) -> dict[int, Heard]:
        """Run a command on each VM, as many at once as the pool has threads; return the results."""
        loop = asyncio.get_running_loop()
        asked = {
            vm: loop.run_in_executor(self._threads, self._one, vm, place, command(vm))
            for vm, place in places.items()
        }
        await asyncio.gather(*asked.values())
        return {vm: task.result() for vm, task in asked.items()}

    def forget(self, there: Sequence[int]) -> None:
        """Close the connections to all VMs except these."""
        with self._lock:
            gone = [self._lines.pop(vm) for vm in self._lines.keys() - set(there)]
        for line in gone:
            line.hang_up()

    def close(self) -> None:
        """Close all connections; running commands end with an error."""
        self.forget(())
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _one(self, vm: int, place: SshTarget, command: str) -> Heard:
        with self._lock:
            line = self._lines.get(vm)
            if line is None or line.place != place:
                if line is not None:
                    line.hang_up()
                line = self._lines[vm] = _SshConnection(place)
        return line.ask(command, self._key, self._limits)


class _SshConnection:
    """A connection to one VM, opened when needed and reopened when lost."""

    def __init__(self, place: SshTarget) -> None:
        self.place = place
        self._client: paramiko.SSHClient | None = None
        self._lock = threading.Lock()

    def ask(self, command: str, key: paramiko.PKey, limits: SshLimits) -> Heard:
        """Run a command, and return its result; reopen a connection that turns out to be dead."""
        with self._lock:
            for kept in (self._client is not None, False):
                try:
                    client = self._opened(key, limits)
                    return _said(client, command, limits.command_s)
                except paramiko.BadHostKeyException:
                    self._dropped()
                    return CommandFailure(
                        f"{self.place.address}: unexpected host key", stranger=True
                    )
                except Exception as error:  # noqa: BLE001 - paramiko raises any for malformed bytes
                    self._dropped()
                    if not kept:
                        return CommandFailure(f"{self.place.address}: {_words(error)}")
        raise AssertionError("the last round returns")

    def hang_up(self) -> None:
        """Close the connection, from any thread; a running command ends with an error."""
        client = self._client
        if client is not None:
            client.close()

    def _dropped(self) -> None:
        self.hang_up()
        self._client = None

    def _opened(self, key: paramiko.PKey, limits: SshLimits) -> paramiko.SSHClient:
        if self._client is not None:
            return self._client
        place = self.place
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(paramiko.RejectPolicy())
        if place.host_key:
            known = _public(place.host_key)
            name = place.address if place.port == 22 else f"[{place.address}]:{place.port}"
            client.get_host_keys().add(name, known.get_name(), known)
        try:
            client.connect(
                place.address,
                place.port,
                place.user,
                pkey=key,
                timeout=limits.connect_s,
                banner_timeout=limits.connect_s,
                auth_timeout=limits.connect_s,
                allow_agent=False,
                look_for_keys=False,
            )
        except BaseException:
            client.close()
            raise
        self._client = client
        return client


def _public(text: str) -> paramiko.PKey:
    kind, _, _ = text.partition(" ")
    blob = paramiko.hostkeys.HostKeyEntry.from_line(f"* {text}")
    if blob is None or blob.key is None:
        raise paramiko.SSHException(f"invalid host key of type {kind!r}")
    return blob.key


def _said(client: paramiko.SSHClient, command: str, limit_s: float) -> CommandResult:
    """Run a command, and return its status and output. Raise TimeoutError after `limit_s`."""
    ending_s = time.monotonic() + limit_s
    transport = client.get_transport()
    if transport is None:
        raise EOFError("the connection is closed")
    channel = transport.open_session(timeout=limit_s)
    with contextlib.closing(channel), _closed_after(transport, limit_s):
        channel.settimeout(limit_s)
        channel.exec_command(command)
        channel.shutdown_write()
        channel.set_combine_stderr(False)
        out = bytearray()
        while len(out) < MOST_BYTES:
            channel.settimeout(max(0.001, ending_s - time.monotonic()))
            part = channel.recv(_CHUNK)
            if not part:
                break
            out += part
        error = channel.recv_stderr(_CHUNK) if channel.recv_stderr_ready() else b""
        if not channel.status_event.wait(max(0.0, ending_s - time.monotonic())):
            raise TimeoutError(f"the command did not end within {limit_s:g} s")
        return CommandResult(channel.exit_status, bytes(out), error)


@contextlib.contextmanager
def _closed_after(transport: paramiko.Transport, limit_s: float) -> Iterator[None]:
    """Close the connection after the limit: paramiko waits without one for a command's start."""
    timer = threading.Timer(limit_s + _GRACE_S, transport.close)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
