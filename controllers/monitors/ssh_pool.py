"""Connections to VMs over SSH: a pool of threads, one kept connection a VM, nobody else's keys.

A VM's host key is known before its first boot, since contextualisation gave it to it: whoever
answers with another one is not spoken to. There are no passwords and no agents, only our key.
Everything has a time limit, and a VM that does not answer holds up one thread, not the others.
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
"""More of an answer is not read."""
_CHUNK: Final = 1 << 15
_GRACE_S: Final = 1.0
"""After this the whole connection is closed, where a command did not end by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshTarget:
    """Where a VM is, and who it must be."""

    address: str
    port: int = 22
    user: str = "root"
    host_key: str = ""
    """Its public key as OpenSSH writes it, `TYPE BASE64`; without one nobody is trusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SshLimits:
    """How many at once, and how long."""

    pool: int = 20
    connect_s: float = 10.0
    command_s: float = 20.0


@dataclass(frozen=True, slots=True)
class Said:
    """What a command came to."""

    status: int
    out: bytes
    error: bytes


@dataclass(frozen=True, slots=True)
class Silent:
    """A VM could not be asked, and why; `stranger`: somebody else answers at its address."""

    why: str
    stranger: bool = False


Heard = Said | Silent


def key_of(text: str) -> paramiko.PKey:
    """Our private key, as OpenSSH writes it. ValueError where it is none."""
    try:
        return paramiko.Ed25519Key.from_private_key(io.StringIO(text))
    except (paramiko.SSHException, ValueError) as error:
        raise ValueError(f"no Ed25519 key: {error}") from None


class SshPool:
    """Closed, no thread and no connection is left."""

    def __init__(self, key: paramiko.PKey, limits: SshLimits) -> None:
        self._key = key
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.pool, thread_name_prefix="ssh")
        self._lines: dict[int, _SshConnection] = {}
        self._lock = threading.Lock()

    async def ask(
        self, places: Mapping[int, SshTarget], command: Callable[[int], str]
    ) -> dict[int, Heard]:
        """What each VM says to its command, all of them at once as far as the pool goes."""
        loop = asyncio.get_running_loop()
        asked = {
            vm: loop.run_in_executor(self._threads, self._one, vm, place, command(vm))
            for vm, place in places.items()
        }
        await asyncio.gather(*asked.values())
        return {vm: one.result() for vm, one in asked.items()}

    def forget(self, there: Sequence[int]) -> None:
        """Hang up on all but these VMs."""
        with self._lock:
            gone = [self._lines.pop(vm) for vm in self._lines.keys() - set(there)]
        for line in gone:
            line.hang_up()

    def close(self) -> None:
        """Hang up on everybody; what is being asked ends with an error."""
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
    """A connection that is opened when it is needed, and again when it was lost."""

    def __init__(self, place: SshTarget) -> None:
        self.place = place
        self._client: paramiko.SSHClient | None = None
        self._lock = threading.Lock()

    def ask(self, command: str, key: paramiko.PKey, limits: SshLimits) -> Heard:
        """The answer; a kept connection that turns out to be dead is opened once more."""
        with self._lock:
            for kept in (self._client is not None, False):
                try:
                    client = self._opened(key, limits)
                    return _said(client, command, limits.command_s)
                except paramiko.BadHostKeyException:
                    self._dropped()
                    return Silent(f"{self.place.address}: not its host key", stranger=True)
                except (paramiko.SSHException, OSError, EOFError) as error:
                    self._dropped()
                    if not kept:
                        return Silent(f"{self.place.address}: {_words(error)}")
        raise AssertionError("the last round returns")

    def hang_up(self) -> None:
        """From any thread; whoever waits for an answer gets an error."""
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
        raise paramiko.SSHException(f"{kind}: no host key")
    return blob.key


def _said(client: paramiko.SSHClient, command: str, limit_s: float) -> Said:
    """Its output, both streams as they come, until it ends or time is up."""
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
            raise TimeoutError(f"no end within {limit_s:g} s")
        return Said(channel.exit_status, bytes(out), error)


@contextlib.contextmanager
def _closed_after(transport: paramiko.Transport, limit_s: float) -> Iterator[None]:
    """Close the connection then: paramiko waits without a limit for a command to be taken."""
    timer = threading.Timer(limit_s + _GRACE_S, transport.close)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
