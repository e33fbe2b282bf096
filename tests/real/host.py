"""A host: namespaces with libvirtd, virtlogd and sshd, on a bridge with the other hosts."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import libvirt

from tests.real import controls
from tests.real.network import address_of, name_of, plug, switch, unplug

ROOT = Path(__file__).parents[2]
_PATIENCE_S = 120.0
_TICK_S = 0.02
_NAMESPACES = ("--mount", "--net", "--uts", "--ipc", "--cgroup", "--pid", "--fork", "--kill-child")

_QEMU = """\
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = [ ]
migration_host = "{address}"
migration_address = "0.0.0.0"
"""
_LIBVIRTD = """\
host_uuid = "{uuid}"
listen_tls = 0
listen_tcp = 1
auth_tcp = "none"
unix_sock_rw_perms = "0700"
auth_unix_rw = "none"
auth_unix_ro = "none"
log_filters = "1:libvirt.domain 4:*"
log_outputs = "1:file:/var/log/libvirt/{calls}"
"""
_CALLS = "calls.log"
_SETTING = re.compile(r"debug : virDomain(?:Set|Pin)\w*:")
_SSHD = """\
ListenAddress {address}
HostKey {directory}/ssh_host_key
AuthorizedKeysFile {directory}/../id.pub
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
PidFile none
"""


def until(met: Callable[[], object], what: str, *, patience_s: float = _PATIENCE_S) -> None:
    """Wait for a condition. Raise AssertionError if it is not met in time."""
    ending = time.monotonic() + patience_s
    while not met():
        assert time.monotonic() < ending, f"{what}: not within {patience_s:g} s"
        time.sleep(_TICK_S)


class RealHost:
    """A host that runs from its construction until it is closed or killed."""

    def __init__(self, directory: Path, number: int, count: int) -> None:
        """`directory` is common to all `count` hosts, which know each other by name."""
        self.name = name_of(number)
        self.address = address_of(number)
        self.directory = directory / self.name
        self.group = f"{os.environ['MERKAT_REAL_GROUP']}/{self.name}"
        self._link = f"to-{self.name}"
        self._opened: dict[str, Any] = {}
        self._parent: subprocess.Popen[bytes] | None = None
        self._write(directory, count)
        try:
            self.start()
        except BaseException:
            self.close()
            raise

    # -- starting and ending ------------------------------------------------------------------

    def start(self) -> None:
        """Start the host without guests, and wait until it answers."""
        controls.make(self.group)
        (self.directory / "ready").unlink(missing_ok=True)
        shutil.rmtree(self.directory / "run", ignore_errors=True)
        (self.directory / "run").mkdir()
        log = (self.directory / "first.log").open("wb")
        with log:
            self._parent = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", "unshare", *_NAMESPACES),
                    *(sys.executable, "-m", "tests.real.first", str(self.directory)),
                ],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=self._enter,  # noqa: PLW1509 - it only writes its id to files
            )
        until(lambda: self._first() or self._over(), f"{self.name}'s first process")
        plug(self._link, self._first() or self._parent.pid)
        until((self.directory / "ready").exists, f"{self.name} ready: {self._output()}")
        self.until_answering()

    def kill(self) -> None:
        """Kill the whole host, as a power cut would: no process ends in order."""
        self.plug("down")
        first = self._first()
        if first is not None:
            os.kill(first, signal.SIGKILL)
        if self._parent is not None:
            self._parent.wait()
        with contextlib.suppress(
            subprocess.CalledProcessError
        ):  # the kernel may have removed the link already
            unplug(self._link)

    def plug(self, state: str) -> None:
        """Set the host's cable "down" or "up"; its sockets on this machine work all the time."""
        switch(self._link, state)

    def close(self) -> None:
        """End the host and all its processes; only its files remain."""
        self.hang_up()
        if self._parent is not None and self._parent.poll() is None:
            self.kill()
        controls.remove(self.group)

    def kill_libvirtd(self) -> None:
        """Kill libvirtd, as a crash would; its guests continue to run."""
        self.run("kill", "-KILL", self._pid_file().read_text().strip())
        until(lambda: not self.answers(), f"{self.name}'s libvirtd gone")

    def stall_libvirtd(self, *, stalled: bool = True) -> None:
        """Make libvirtd accept calls without answering; with `stalled` false, let it continue."""
        signal_name = "-STOP" if stalled else "-CONT"
        self.run("kill", signal_name, self._pid_file().read_text().strip())

    def start_libvirtd(self) -> None:
        """Start libvirtd again, and wait until it answers."""
        self.run(*_libvirtd(self._pid_file()))
        self.until_answering()

    def keep_to(self, *cores: int) -> None:
        """Restrict the host to these cores of the machine, before it has any guest."""
        controls.confine(self.group, cores)

    # -- connections and commands -------------------------------------------------------------

    @property
    def socket(self) -> Path:
        """Return libvirtd's socket, as this machine sees it."""
        return self.directory / "run/libvirt-sock"

    def uri(self, driver: str = "qemu", transport: str = "unix") -> str:
        """Return libvirtd's address."""
        match transport:
            case "unix":
                return f"{driver}+unix:///system?socket={self.socket}"
            case "tcp":
                return f"{driver}+tcp://{self.address}/system"
            case "ssh":
                key = self.directory.parent / "id"
                return f"{driver}+ssh://root@{self.address}/system?keyfile={key}&no_verify=1"
            case _:
                raise ValueError(transport)

    def connection(self, driver: str = "qemu") -> Any:
        """Return the tests' own connection; open it again if it was lost."""
        opened = self._opened.get(driver)
        if opened is None or not opened.isAlive():
            self._opened[driver] = opened = libvirt.open(self.uri(driver))
        return opened

    def hang_up(self) -> None:
        """Close the tests' own connections."""
        for connection in self._opened.values():
            with contextlib.suppress(libvirt.libvirtError):
                connection.close()
        self._opened.clear()

    def answers(self) -> bool:
        """Return whether libvirtd accepts a new connection."""
        try:
            libvirt.open(self.uri()).close()
        except libvirt.libvirtError:
            return False
        return True

    def until_answering(self) -> None:
        """Wait until libvirtd answers."""
        until(self.answers, f"{self.name}'s libvirtd answers: {self._output()}")

    def domains(self) -> set[str]:
        """Return the names of the domains that exist or arrive."""
        return {domain.name() for domain in self.connection().listAllDomains()}

    def changes(self) -> int:
        """Return the number of all calls to libvirtd that changed a guest."""
        calls = (self.directory / "log" / _CALLS).read_text(errors="replace")
        return len(_SETTING.findall(calls))

    def run(self, *words: str) -> str:
        """Return the output of a command that runs on the host as one of its own processes."""
        done = subprocess.run(
            self.words(*words),
            preexec_fn=self._enter,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{self.name}: {' '.join(words)}: {done.stderr}{done.stdout}"
        return done.stdout

    def words(self, *command: str) -> list[str]:
        """Return the command with which this machine runs a command on the host."""
        first = self._first()
        assert first is not None, f"{self.name} is down"
        return ["nsenter", "--target", str(first), "--all", f"--wd={ROOT}", *command]

    # -- inside -------------------------------------------------------------------------------

    def _first(self) -> int | None:
        if self._parent is None or self._over():
            return None
        pid = self._parent.pid
        with contextlib.suppress(OSError):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            return int(children[0]) if children else None
        return None

    def _enter(self) -> None:
        controls.enter(self.group)

    def _over(self) -> bool:
        assert self._parent is not None
        assert self._parent.poll() is None, f"{self.name} ended: {self._output()}"
        return False

    def _pid_file(self) -> Path:
        return self.directory / "run/pid"

    def _output(self) -> str:
        return (self.directory / "first.log").read_text()

    def _write(self, directory: Path, count: int) -> None:
        for name in ("etc", "lib", "cache", "log"):
            (self.directory / name).mkdir(parents=True)
        etc = self.directory / "etc"
        shutil.copytree("/etc/libvirt", etc, dirs_exist_ok=True)
        shutil.rmtree(etc / "qemu/networks/autostart", ignore_errors=True)
        key, own_key = directory / "id", self.directory / "ssh_host_key"
        for file in (key, own_key):
            if not file.exists():
                _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file))
        own = uuid.uuid5(uuid.NAMESPACE_DNS, self.name)
        (etc / "qemu.conf").write_text(_QEMU.format(address=self.address))
        (etc / "libvirtd.conf").write_text(_LIBVIRTD.format(uuid=own, calls=_CALLS))
        sshd = self.directory / "sshd_config"
        sshd.write_text(_SSHD.format(address=self.address, directory=self.directory))
        names = "".join(f"{address_of(number)} {name_of(number)}\n" for number in range(count))
        host = {
            "name": self.name,
            "address": self.address,
            "link": f"{self._link}-in",
            "hosts": f"127.0.0.1 localhost\n{names}",
            "services": [
                ["/usr/sbin/virtlogd", "-d"],
                _libvirtd(Path("/run/libvirt/pid")),
                ["/usr/sbin/sshd", "-f", str(sshd)],
            ],
        }
        (self.directory / "host.json").write_text(json.dumps(host))


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def _libvirtd(pid_file: Path) -> Sequence[str]:
    return ["/usr/sbin/libvirtd", "--daemon", "--listen", "--pid-file", str(pid_file)]
