"""Connections of strangers leave the daemon enough open files."""

import resource
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from twisted.logger import capturedLogs

from merkatd.api.http.settings import ApiSettings
from merkatd.cli import main
from merkatd.daemon.open_files import OWN, within
from tests.daemon.harness import Site
from tests.daemon.processes import Program, until

FILES = 700
"""The system's limit, below the connections of both servers together."""
ADDRESSES = 8
TRIED = 400
REQUEST = b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def _run_with_few_files(words: Sequence[str]) -> int:
    """Run a command that may have few files open; the hard limit is twice the soft one."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES // 2, FILES))
    return main(words)


@pytest.fixture
def daemon(site: Site) -> Iterator[Program]:
    """Replace the site's daemon by one that may have few files open."""
    site.kill_daemon()
    words = ("run", "--config", str(site.directory / "merkatd.toml"))
    started = Program(site.directory / "few.log", *words, main=_run_with_few_files)
    yield started
    started.kill()


def hold_connections(door: Path, number: int, into: list[socket.socket]) -> None:
    """Open this number of connections to a server, with a request on each."""
    port = int(door.read_text().strip().rpartition(":")[2].partition("/")[0])
    for address in range(ADDRESSES):
        for _ in range(number // ADDRESSES):
            source = (f"127.0.7.{address + 1}", 0)
            connection = socket.create_connection(("127.0.0.1", port), 5.0, source)
            into.append(connection)
            connection.sendall(REQUEST)


def test_periods_continue_while_strangers_hold_all_connections(site: Site, daemon: Program) -> None:
    """The daemon raises its soft limit to the hard one and logs the shortage."""
    before = site.good_periods()
    until(lambda: site.good_periods() > before, "a period")
    state, log = site.directory / "state", site.directory / "few.log"
    log_text = log.read_text()
    assert f"merkatd may have only {FILES} files open" in log_text, log_text
    connections: list[socket.socket] = []
    try:
        for door in ("merkat_xmlrpc", "merkat_web"):
            until((state / door).exists, "the server is ready")
            hold_connections(state / door, TRIED, connections)
        now = site.good_periods()
        until(lambda: site.good_periods() >= now + 5, "five periods")
        open_files = len(list(Path(f"/proc/{daemon.pid}/fd").iterdir()))
        assert open_files < FILES - OWN // 2
        assert "Too many open files" not in log.read_text()
    finally:
        for connection in connections:
            connection.close()


@pytest.mark.parametrize(
    ("files", "doors", "connections", "of_one"),
    [
        (131_072, 2, 512, 128),
        (OWN + 1_024, 2, 512, 128),
        (OWN + 1_023, 2, 511, 128),
        (1_024, 2, 256, 128),
        (1_024, 1, 512, 128),
        (600, 2, 44, 44),
        (100, 2, 16, 16),
    ],
)
def test_servers_leave_enough_files(files: int, doors: int, connections: int, of_one: int) -> None:
    """A server with fewer connections than configured logs it once."""
    with capturedLogs() as logged:
        bounds = within(ApiSettings(), doors, files)
    assert (bounds.connections, bounds.connections_per_address) == (connections, of_one)
    assert len(logged) == (connections < 512)
