"""Private sshds on loopback addresses, one for each VM; none remains afterwards."""

import base64
import contextlib
import ctypes
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from merkatd.protocol.guest_keys import AUTHORISED, HOST_KEY, GuestKeys

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
_CONFIG = """\
ListenAddress {address}:{port}
HostKey {directory}/host_key
AuthorizedKeysFile {directory}/authorised
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
SetEnv SHLVL=5
PidFile none
MaxSessions 100
MaxStartups 100
"""
"""At that level bash skips its user's .bashrc, which is irrelevant to the tests."""
_READY_S = 20.0
_LIBC = ctypes.CDLL(None)


class Sshd:
    """The sshd of a VM, with the keys from its contextualisation."""

    def __init__(self, directory: Path, address: str, port: int, keys: GuestKeys, key: str) -> None:
        self.address, self.port = address, port
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir()
        self.know(keys, key)
        (directory / "config").write_text(
            _CONFIG.format(address=address, port=port, directory=directory)
        )

    def know(self, keys: GuestKeys, key: str) -> None:
        """Become the VM with this key at the next start."""
        handed = keys.handed(key)
        host_key = self.directory / "host_key"
        host_key.touch(0o600)
        host_key.write_bytes(base64.b64decode(handed[HOST_KEY]))
        (self.directory / "authorised").write_text(handed[AUTHORISED] + "\n")

    def start(self) -> None:
        """Start it and wait until it answers."""
        assert SSHD is not None
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", str(self.directory / "config")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=_end_with_the_tests,  # noqa: PLW1509 - a call to the system and no more
            )
        ending_s = time.monotonic() + _READY_S
        while not self._answers():
            log_text = (self.directory / "log").read_text()
            assert self._process.poll() is None, log_text
            assert time.monotonic() < ending_s, log_text
            time.sleep(0.005)

    def stop(self) -> None:
        """Stop it at once, with all sessions."""
        if self._process is not None:
            for child in _children(self._process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((self.address, self.port), 1.0):
            return True
        return False


def free_port() -> int:
    """Return a port that is probably free on all loopback addresses."""
    with socket.socket() as socket_:
        socket_.bind(("127.0.0.1", 0))
        return int(socket_.getsockname()[1])


def user() -> str:
    """Return the user that runs the tests."""
    return getpass.getuser()


@contextlib.contextmanager
def running(directory: Path, keys: GuestKeys, count: int) -> Iterator[list[Sshd]]:
    """Run VMs 1, 2, ... at 127.0.3.1, 127.0.3.2, ..., with the keys key-1, key-2, ..."""
    port = free_port()
    servers = [
        Sshd(directory / f"vm-{vm}", f"127.0.3.{vm}", port, keys, f"key-{vm}")
        for vm in range(1, count + 1)
    ]
    try:
        for server in servers:
            server.start()
        yield servers
    finally:
        for server in servers:
            server.stop()


def _children(pid: int) -> list[int]:
    pids = []
    with contextlib.suppress(OSError):
        for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            pids += [*_children(int(word)), int(word)]
    return pids


def _end_with_the_tests() -> None:
    """End this process when the tests end for any reason."""
    _LIBC.prctl(1, signal.SIGKILL)
