"""A Debian 12 under systemd, with two versions of the package, a journal and a database."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.controllers.monitors.sshd import free_port
from tests.real import beside, made
from tests.real.host import until
from tests.real.pid_one import PidOne
from tests.real.walking import Walker

PATIENCE_S = 180.0
SERVICE = "merkatd.service"
JOURNAL = tuple(
    f"systemd-journald{suffix}" for suffix in (".service", ".socket", "-dev-log.socket")
)
DATABASE = """\
[Service]
Type=notify
ExecStartPre=/usr/bin/install -d -o mysql /run/mysqld
ExecStartPre=/bin/sh -c "test -d /var/lib/mysql/mysql || mariadb-install-db --user=mysql >/dev/null"
ExecStart=/usr/sbin/mariadbd --user=mysql --skip-networking --innodb-buffer-pool-size=32M
"""
"""A unit for Debian's server, without the protections that these namespaces may lack."""
CONFIG = """\
[daemon]
state_directory = "/var/lib/merkat"
[database]
{database}
[period]
interval = "500ms"
[cloud]
kind = "opennebula"
endpoint = "http://127.0.0.1:{port}/RPC2"
auth_file = "/etc/merkat/one_auth"
[hypervisor]
kind = "embedded"
[metrics]
enabled = true
address = "127.0.0.1"
port = {metrics}
"""
MARIADB = 'url = "mysql+pymysql://merkat@localhost/merkat?unix_socket=/run/mysqld/mysqld.sock"'
PREPARE = """
create database merkat character set utf8mb4;
create user merkat@localhost identified via unix_socket;
grant all on merkat.* to merkat@localhost;
"""
READ_LITE = (
    "import sqlite3, sys;"
    "c = sqlite3.connect('file:/var/lib/merkat/merkat.db?mode=ro', uri=True);"
    "print(c.execute(sys.argv[1]).fetchone()[0])"
)
PATH = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
CLEAN = ("env", "-i", PATH)


class Machine:
    """A running machine, with a reader at its terminal."""

    def __init__(self, system: PidOne, kind: str, port: int) -> None:
        self.system = system
        self.kind = kind
        self.metrics = free_port()
        database = MARIADB if kind == "mariadb" else ""
        self.config = CONFIG.format(database=database, port=port, metrics=self.metrics)
        names = {"VM": "vm0", "HOST": "host000", "TENANT": "0"}
        environment = (PATH, "DPKG_FORCE=unsafe-io")
        self.reader = Walker(system, names, environment=environment)
        system.put("/etc/hosts", f"127.0.0.1 localhost {system.ok('hostname')}\n")
        self.offer("present")

    def offer(self, version: str) -> None:
        """Put a version of the package where `make deb` puts it."""
        self.system.ok("/bin/sh", "-c", 'rm -rf "$1" && mkdir "$1" && ln -s "$2" "$1"', "-",
                       "/root/dist", f"/packages/{version}/{made.package().name}")  # fmt: skip

    def merkatd(self, words: str) -> str:
        """Return the output of a command that the daemon's user runs."""
        return self.reader.type(f"merkatd {words}", user="merkat")

    def dpkg(self, *words: str) -> str:
        """Return the output of dpkg, which must succeed."""
        return self.system.ok(*CLEAN, "DPKG_FORCE=unsafe-io", "dpkg", *words)

    def configure(self) -> None:
        """Configure the machine as install.md says."""
        if self.kind == "mariadb":
            self.system.put("/run/trial/mariadb.service", DATABASE)
            self.system.ok("systemctl", "daemon-reload")
            self.system.ok("systemctl", "start", "mariadb")
            self.system.ok(*CLEAN, "mariadb", "-e", PREPARE)
        self.system.put("/etc/merkat/one_auth", beside.SESSION, mode="640")
        self.system.put("/etc/merkat/merkatd.toml", self.config, mode="640")
        self.system.ok("chgrp", "merkat", "/etc/merkat/one_auth", "/etc/merkat/merkatd.toml")

    def active(self) -> None:
        """Start the daemon if it does not run, and let it act."""
        self.system.ok("systemctl", "start", "merkatd")
        self.merkatd("mode on")
        self.merkatd("resume")

    def enabled(self) -> bool:
        """Return whether the service starts with the machine."""
        link = "/etc/systemd/system/multi-user.target.wants/merkatd.service"
        return self.system.run("test", "-L", link).code == 0

    def ended(self) -> None:
        """Check that no process of Merkat runs."""
        assert self.system.show("ActiveState") == "inactive"
        assert self.system.run("pgrep", "-u", "merkat").out == ""

    def go_on(self, number: int = 2) -> None:
        """Wait for this number of further periods."""
        wanted = self.count("periods") + number
        until(lambda: self.count("periods") >= wanted, "it goes on", patience_s=PATIENCE_S)

    def figure(self, name: str) -> float:
        """Return the value of a metric, NaN if it is missing."""
        code = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{self.metrics}/metrics').read().decode())"
        ran = self.system.run(*CLEAN, "python3", "-c", code)
        values = [line.split()[-1] for line in ran.out.splitlines() if line.startswith(f"{name} ")]
        return float(values[0]) if values else float("nan")

    def count(self, table: str) -> int:
        """Return the number of rows of a table, whether a daemon runs or not."""
        query = f"select count(*) from {table}"  # noqa: S608 - a name of ours
        if self.kind == "mariadb":
            return int(self.system.ok(*CLEAN, "mariadb", "-N", "-e", query, "merkat"))
        return int(self.system.ok(*CLEAN, "python3", "-c", READ_LITE, query))

    def log(self) -> str:
        """Return the log of all daemons."""
        return self.system.run("journalctl", "--no-pager", "-u", "merkatd").out


class Books:
    """The state at the time of a backup, and the changes after it."""

    def __init__(self, machine: Machine, proxy: Any) -> None:
        self._machine = machine
        self._proxy = proxy
        self._at_most = 0

    def save(self) -> None:
        """Note the state, right after the backup."""
        self._at_most = self._machine.count("periods")

    def work(self) -> None:
        """Create a VM, and wait until it is placed."""
        there = beside.running(self._proxy)
        beside.new(self._proxy, "late")
        until(lambda: beside.running(self._proxy) > there, "it runs", patience_s=PATIENCE_S)
        self._machine.go_on()
        assert self._machine.count("periods") > self._at_most

    def restored(self) -> None:
        """Check that the restored state is that of the backup."""
        assert 0 < self._machine.count("periods") <= self._at_most

    def sound(self) -> None:
        """Check that all accounts add up to zero and that VMs newer than the backup are known."""
        self._machine.go_on()
        assert "late" in self._machine.merkatd("list vms")
        assert "The books balance" in self._machine.merkatd("status")


@contextmanager
def running(place: Path, kind: str, port: int) -> Iterator[Machine]:
    """Yield a machine without the package; its files are in memory and are removed at the end."""
    root = place / "root"
    root.mkdir()
    try:
        _unpack(root, place / "parts")
        (place / "system").mkdir()
        system = PidOne(place / "system", "", below=root, units=(SERVICE, *JOURNAL))
        try:
            system.ok("systemctl", "start", "systemd-journald")
            yield Machine(system, kind, port)
        finally:
            system.close()
    finally:
        subprocess.run(["rm", "-rf", root], check=True)


def _unpack(root: Path, parts: Path) -> None:
    """Unpack a Debian, with the package and a copy of it that has a higher version number."""
    subprocess.run(["tar", "-xf", made.debian(), "-C", root], check=True)
    package = made.package()
    for version in ("present", "newer"):
        (root / "packages" / version).mkdir(parents=True)
    (root / "packages/present" / package.name).write_bytes(package.read_bytes())
    subprocess.run(["dpkg-deb", "-R", package, parts], check=True)
    control = parts / "DEBIAN/control"
    (version,) = [line for line in control.read_text().splitlines() if line.startswith("Version: ")]
    control.write_text(control.read_text().replace(version, f"{version}+1"))
    build = ("dpkg-deb", "-Znone", "--root-owner-group", "-b", str(parts))
    newer = root / "packages/newer" / package.name
    subprocess.run([*build, str(newer)], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", parts], check=True)
