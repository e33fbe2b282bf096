"""The test harness itself: what it starts is real, and ends with the tests."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import libvirt
import pytest
import sqlalchemy as sa

from tests.real import controls
from tests.real.domains import burner, contain
from tests.real.host import ROOT, RealHost, until
from tests.real.site import running

_DOOMED = """
import sys
from pathlib import Path
from tests.real.domains import burner, contain
from tests.real.host import RealHost
host = RealHost(Path(sys.argv[1]), 7, 8)
contain(host, 1)
print("up", flush=True)
sys.stdin.read()
"""

_DOOMED_BOOKS = """
import sys
import tempfile
tempfile.tempdir = sys.argv[1]
from tests.real.books import Books
Books()
print("up", flush=True)
sys.stdin.read()
"""


def test_a_cloud_keeps_its_ledger_on_mariadb(mortal_hosts: list[RealHost], tmp_path: Path) -> None:
    """The daemon writes to MariaDB, and has no SQLite file."""
    with running(tmp_path, mortal_hosts[:1]) as site:
        assert "MariaDB" in site.read(lambda c: c.scalar(sa.text("SELECT VERSION()")))
        site.after_periods(1)
        assert (
            site.read(
                lambda c: c.scalar(
                    sa.text("SELECT COUNT(*) FROM periods WHERE acted_s IS NOT NULL")
                )
            )
            > 0
        )
        assert not list(site.directory.rglob("merkat.db*"))


def test_a_killed_run_leaves_no_database_server(tmp_path: Path) -> None:
    """If a run is killed, the MariaDB of its clouds ends too."""
    doomed = subprocess.Popen(
        [sys.executable, "-c", _DOOMED_BOOKS, tmp_path],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with doomed:
        assert doomed.stdout is not None
        assert doomed.stdout.readline() == b"up\n"
        assert any("mariadbd" in process for process in _processes_of(tmp_path))
        doomed.send_signal(signal.SIGKILL)
    until(lambda: not _processes_of(tmp_path), "all processes gone")


def test_a_host_is_a_machine_of_its_own(mortal_hosts: list[RealHost]) -> None:
    """It has its own name, processes, control groups, network and libvirtd, by every transport."""
    host, other = mortal_hosts
    contain(host, 1)
    assert host.run("hostname").strip() == host.name
    assert "libvirt_lxc" in host.run("ps", "-e")
    assert "libvirt_lxc" not in other.run("ps", "-e")
    assert "one-1" in host.run("ls", "-R", "/sys/fs/cgroup")
    assert "one-1" not in other.run("ls", "-R", "/sys/fs/cgroup")
    for driver in ("qemu", "lxc"):
        for transport in ("unix", "tcp", "ssh"):
            connection = libvirt.open(host.uri(driver, transport))
            assert connection.getHostname() == host.name
            connection.close()


def test_a_lost_host_takes_its_guests_along(mortal_hosts: list[RealHost]) -> None:
    """Its guests end too; it starts again empty, and the other host is not affected."""
    lost, other = mortal_hosts
    contain(lost, 1)
    beside = contain(other, 2)
    lost.kill()
    assert not lost.answers()
    assert not _processes_of(lost.directory)
    lost.start()
    with pytest.raises(libvirt.libvirtError):
        lost.connection("lxc").lookupByName("one-1")
    assert beside.domain.isActive()


def test_a_closed_host_leaves_nothing(
    plugs: None,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    """No process, link or control group remains."""
    host = RealHost(tmp_path, 5, 6)
    contain(host, 1)
    host.close()
    assert not _left_of(host.name, tmp_path)


def test_a_killed_run_leaves_no_host(
    plugs: None,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    """If the process that holds a host is killed, the host, its guests and its link end too."""
    doomed = subprocess.Popen(
        [sys.executable, "-c", _DOOMED, tmp_path],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with doomed:
        assert doomed.stdout is not None
        assert doomed.stdout.readline() == b"up\n"
        assert _processes_of(tmp_path)
        doomed.send_signal(signal.SIGKILL)
    until(lambda: not _processes_of(tmp_path), "all processes gone")
    until(lambda: "host7" not in _links(), "its link gone")
    controls.remove(f"{os.environ['MERKAT_REAL_GROUP']}/host7")


def test_the_guest_without_a_system_uses_all_its_processors(mortal_hosts: list[RealHost]) -> None:
    """Within about a second both virtual CPUs are busy, as a domain's statistics show."""
    got = burner(mortal_hosts[0], 9, vcpus=2).got(2.0)
    assert got.within(1.5, 2.2), got


def _left_of(name: str, directory: Path) -> list[str]:
    groups = [path for tree in controls.trees() for path in tree.rglob(name)]
    links = [line for line in _links().splitlines() if name in line]
    return [*map(str, groups), *links, *_processes_of(directory)]


def _links() -> str:
    return subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout


def _processes_of(directory: Path) -> list[str]:
    """Return the processes that use the directory, as a mount or on their command line."""
    processes = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            mounts = (process / "mountinfo").read_text()
        except OSError:
            continue
        if process.name != str(os.getpid()) and str(directory) in words + mounts:
            processes.append(f"{process.name} {words}")
    return processes
