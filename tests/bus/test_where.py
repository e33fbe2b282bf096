"""The bus's address: only the daemon's own user can connect, unless the site configures a port."""

import socket
import stat
import time
from pathlib import Path

import pytest

from merkatd.bus.socket_paths import FOLDER, LOOPBACK, PUBLISHED, endpoint_in
from tests.bus.raw import Raw
from tests.bus.rig import CONTROLLER, Site, assignment, news, on_site, parts, soon, until
from tests.bus.test_running import House, in_house

GREETING = bytes([0xFF, *[0] * 8, 0x7F, 3, 0]) + b"CURVE".ljust(20, b"\0") + bytes(32)


def test_processes_connect_through_a_private_folder(tmp_path: Path) -> None:
    """There is no port, and a folder that others could enter is closed to them."""
    (tmp_path / FOLDER).mkdir(mode=0o777)

    async def story(house: House) -> None:
        await house.do(house.processes.start(assignment(1)))
        house.processes.announce(*parts(news(1)))
        await until(lambda: house.notes.actions, "an action")
        passport = house.processes._opened.passport(1, CONTROLLER)
        for endpoint in (passport.asking, passport.listening):
            path = Path(endpoint.removeprefix("ipc://"))
            assert path.is_socket()
            assert path.parent == tmp_path / FOLDER
        assert stat.S_IMODE((tmp_path / FOLDER).stat().st_mode) == 0o700

    in_house(tmp_path, story)


def test_the_next_daemon_has_the_same_addresses(tmp_path: Path) -> None:
    """Sockets that a daemon left behind do not stop the next daemon."""

    async def story(site: Site) -> None:
        asked = Path(site.hub.passport(1, CONTROLLER).asking.removeprefix("ipc://"))
        assert asked.is_socket()
        await soon(site.join(1))

    for _ in range(2):
        on_site(story, endpoint=endpoint_in(tmp_path))
        with socket.socket(socket.AF_UNIX) as left:
            path = str(tmp_path / FOLDER / PUBLISHED)
            Path(path).unlink(missing_ok=True)
            left.bind(path)


@pytest.mark.parametrize("more", [0, 1])
def test_a_path_too_long_for_a_socket_becomes_a_port(tmp_path: Path, more: int) -> None:
    """The longest path that the system accepts is still a socket."""
    room = 107 - len(str(tmp_path / "x" / FOLDER / PUBLISHED)) + 1
    home = tmp_path / ("x" * (room + more))
    home.mkdir()
    endpoint = endpoint_in(home)
    assert (endpoint == LOOPBACK) == bool(more)

    async def story(site: Site) -> None:
        await soon(site.join(1))

    on_site(story, endpoint=endpoint)


def test_at_a_port_connections_without_a_handshake_end_soon() -> None:
    """Each one costs the daemon a file; a connection with a handshake stays."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        await raw.greet()
        host, port = site.hub.passport(1, CONTROLLER).asking.removeprefix("tcp://").split(":")
        strangers = [socket.create_connection((host, int(port))) for _ in range(2)]
        began_s = time.monotonic()
        strangers[1].send(GREETING)
        for stranger in strangers:
            stranger.setblocking(False)
        await until(lambda: all(map(_is_closed, strangers)), "their end")
        for stranger in strangers:
            stranger.close()
        assert time.monotonic() - began_s < 6.0
        await soon(raw.greet())

    on_site(story)


def _is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(4096) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
