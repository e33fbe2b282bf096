"""The Debian package on a Debian that systemd runs: started, read, updated at work, removed."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controllers.monitors.sshd import free_port
from tests.real import made
from tests.real.beside import SESSION, VMS, cloud, quotas
from tests.real.host import until
from tests.real.pid_one import PidOne

__all__ = ["cloud"]

PATIENCE_S = 180.0
SERVICE = "merkatd.service"
DATABASE = """\
[Service]
Type=notify
ExecStartPre=/usr/bin/install -d -o mysql /run/mysqld
ExecStartPre=/bin/sh -c "test -d /var/lib/mysql/mysql || mariadb-install-db --user=mysql >/dev/null"
ExecStart=/usr/sbin/mariadbd --user=mysql --skip-networking --innodb-buffer-pool-size=32M
"""
"""Debian's own server, without the guards of its unit, which namespaces like these may lack."""
DROP_IN = """\
[Service]
StandardOutput=append:/run/merkatd.log
StandardError=append:/run/merkatd.log
"""
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
PATH = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")


class Machine:
    """A Debian 12 with systemd, two versions of the package, and a database."""

    def __init__(self, system: PidOne, kind: str, port: int) -> None:
        self.system = system
        self.kind = kind
        self.metrics = free_port()
        database = MARIADB if kind == "mariadb" else ""
        self.config = CONFIG.format(database=database, port=port, metrics=self.metrics)

    def dpkg(self, *words: str) -> str:
        """What dpkg says, which must succeed."""
        return self.system.ok(*PATH, "DPKG_FORCE=unsafe-io", "dpkg", *words)

    def configure(self) -> None:
        """As install.md has it."""
        if self.kind == "mariadb":
            self.system.put("/run/trial/mariadb.service", DATABASE)
            self.system.ok("systemctl", "daemon-reload")
            self.system.ok("systemctl", "start", "mariadb")
            self.system.ok(*PATH, "mariadb", "-e", PREPARE)
        self.system.put("/etc/merkat/one_auth", SESSION, mode="640")
        self.system.put("/etc/merkat/merkatd.toml", self.config, mode="640")
        self.system.ok("chgrp", "merkat", "/etc/merkat/one_auth", "/etc/merkat/merkatd.toml")

    def figure(self, name: str) -> float:
        """What is scraped; NaN where it is not there."""
        code = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{self.metrics}/metrics').read().decode())"
        ran = self.system.run(*PATH, "python3", "-c", code)
        found = [line.split()[-1] for line in ran.out.splitlines() if line.startswith(f"{name} ")]
        return float(found[0]) if found else float("nan")

    def count(self, table: str) -> int:
        """The rows of a table, whether a daemon runs or not."""
        query = f"select count(*) from {table}"  # noqa: S608 - a name of ours
        if self.kind == "mariadb":
            return int(self.system.ok(*PATH, "mariadb", "-N", "-e", query, "merkat"))
        return int(self.system.ok(*PATH, "python3", "-c", READ_LITE, query))


@pytest.fixture
def debian(tmp_path: Path) -> Iterator[Path]:
    """Its files, with the package and one that is newer by its number."""
    root, packages = tmp_path / "root", tmp_path / "root/packages"
    root.mkdir()
    subprocess.run(["tar", "-xf", made.debian(), "-C", root], check=True)
    packages.mkdir()
    (packages / "present.deb").write_bytes(made.package().read_bytes())
    parts, control = tmp_path / "parts", tmp_path / "parts/DEBIAN/control"
    subprocess.run(["dpkg-deb", "-R", made.package(), parts], check=True)
    (version,) = [one for one in control.read_text().splitlines() if one.startswith("Version: ")]
    control.write_text(control.read_text().replace(version, f"{version}+1"))
    build = ("dpkg-deb", "-Znone", "--root-owner-group", "-b", str(parts))
    subprocess.run([*build, str(packages / "newer.deb")], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", parts], check=True)
    yield root
    # It lies in memory.
    subprocess.run(["rm", "-rf", root], check=True)


@pytest.fixture(params=["sqlite", "mariadb"])
def machine(
    request: pytest.FixtureRequest, debian: Path, cloud: tuple[int, Any], tmp_path: Path
) -> Iterator[Machine]:
    """One that runs, without the package."""
    (tmp_path / "system").mkdir()
    system = PidOne(tmp_path / "system", DROP_IN, below=debian, units=(SERVICE,))
    try:
        yield Machine(system, request.param, cloud[0])
    finally:
        # pytest shows it where a test failed.
        sys.stdout.write(system.run("cat", "/run/merkatd.log").out)
        system.close()


def test_a_service_is_installed_updated_at_work_and_removed(
    machine: Machine, cloud: tuple[int, Any]
) -> None:
    """It is a service, Prometheus can read it, an update goes on where it was, nothing is lost."""
    _, proxy = cloud
    system = machine.system
    machine.dpkg("--install", "/packages/present.deb")
    assert system.show("ActiveState") == "inactive"
    machine.configure()
    system.ok("systemctl", "start", "merkatd")
    until(lambda: len(quotas(proxy)) == VMS, "VMs are limited", patience_s=PATIENCE_S)
    until(lambda: machine.figure('merkat_periods_total{outcome="done"}') > 1, "figures")
    first, periods, tenants = (
        system.show("MainPID"),
        machine.count("periods"),
        machine.count("tenants"),
    )
    assert tenants > 0

    machine.dpkg("--install", "/packages/newer.deb")
    assert machine.dpkg("--status", "merkat").count("+1\n") == 1
    assert system.show("ActiveState") == "active"
    assert system.show("MainPID") not in {first, "0"}
    assert system.show("NRestarts") == "0"
    until(lambda: machine.count("periods") > periods + 2, "it goes on", patience_s=PATIENCE_S)
    assert machine.count("tenants") == tenants
    assert len(quotas(proxy)) == VMS

    accounts, periods = machine.count("accounts"), machine.count("periods")
    said = machine.dpkg("--remove", "merkat")
    assert not quotas(proxy), said
    assert system.run("pgrep", "-u", "merkat").out == ""
    assert system.run("systemctl", "start", "merkatd").code != 0
    machine.dpkg("--purge", "merkat")
    assert (machine.count("accounts"), machine.count("tenants")) == (accounts, tenants)
    assert machine.count("periods") >= periods
