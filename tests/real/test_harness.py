"""The harness itself: what it starts is real, and nothing of it outlives the tests."""

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
    """Its daemon has written there, and has no file of SQLite."""
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


def test_tests_that_are_killed_leave_no_database_server(tmp_path: Path) -> None:
    """A run is gone without a word: so is the MariaDB of its clouds."""
    doomed = subprocess.Popen(
        [sys.executable, "-c", _DOOMED_BOOKS, tmp_path],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with doomed:
        assert doomed.stdout is not None
        assert doomed.stdout.readline() == b"up\n"
        assert any("mariadbd" in one for one in _processes_of(tmp_path))
        doomed.send_signal(signal.SIGKILL)
    until(lambda: not _processes_of(tmp_path), "all processes gone")


def test_a_host_is_a_machine_of_its_own(mortal_hosts: list[RealHost]) -> None:
    """With its own name, processes, control groups, network and libvirtd, reached in every way."""
    one, other = mortal_hosts
    contain(one, 1)
    assert one.run("hostname").strip() == one.name
    assert "libvirt_lxc" in one.run("ps", "-e")
    assert "libvirt_lxc" not in other.run("ps", "-e")
    assert "one-1" in one.run("ls", "-R", "/sys/fs/cgroup")
    assert "one-1" not in other.run("ls", "-R", "/sys/fs/cgroup")
    for driver in ("qemu", "lxc"):
        for transport in ("unix", "tcp", "ssh"):
            connection = libvirt.open(one.uri(driver, transport))
            assert connection.getHostname() == one.name
            connection.close()


def test_a_host_that_is_lost_takes_all_along(mortal_hosts: list[RealHost]) -> None:
    """Guests too; started again it is empty, and the other one has noticed nothing."""
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
    """No process, link or control group."""
    host = RealHost(tmp_path, 5, 6)
    contain(host, 1)
    host.close()
    assert not _left_of(host.name, tmp_path)


def test_tests_that_are_killed_leave_no_host(
    plugs: None,  # noqa: ARG001
    tmp_path: Path,
) -> None:
    """Whoever holds a host is gone without a word: so is the host, its guests and its link."""
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
    """Both virtual CPUs run in a circle within a second or so, as a domain's statistics say."""
    got = burner(mortal_hosts[0], 9, vcpus=2).got(2.0)
    assert got.within(1.5, 2.2), got


def _left_of(name: str, directory: Path) -> list[str]:
    groups = [path for tree in controls.trees() for path in tree.rglob(name)]
    links = [line for line in _links().splitlines() if name in line]
    return [*map(str, groups), *links, *_processes_of(directory)]


def _links() -> str:
    return subprocess.run(["ip", "link"], capture_output=True, text=True, check=True).stdout


def _processes_of(directory: Path) -> list[str]:
    """Processes that have something of the directory mounted, or on their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            mounts = (process / "mountinfo").read_text()
        except OSError:
            continue
        if process.name != str(os.getpid()) and str(directory) in words + mounts:
            found.append(f"{process.name} {words}")
    return found
