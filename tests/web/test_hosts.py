"""The page is served only under its own names, against DNS rebinding."""

import socket
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.web.base.served_names import OwnHosts, host_name
from tests.web.site import PageSite

LOCAL = "127.0.0.1"


def status(site: PageSite, *lines: bytes, version: bytes = b"1.1") -> int:
    """Return the status of the answer to a request with these header lines."""
    host, port = site.browser().where.split(":")
    with closing(socket.create_connection((host, int(port)), timeout=30)) as connection:
        head = b"\r\n".join((b"GET /sign-in HTTP/" + version, *lines, b"Connection: close"))
        connection.sendall(head + b"\r\n\r\n")
        return int(connection.makefile("rb").readline().split()[1])


class TestServed:
    @pytest.mark.parametrize(
        "host", [b"127.0.0.1", b"127.0.0.1:99", b"localhost", b"LOCALHOST:1", b"localhost."]
    )
    def test_own_names_are_served(self, site: PageSite, host: bytes) -> None:
        """The bound address and localhost are accepted with any port."""
        assert status(site, b"Host: " + host) == 200

    @pytest.mark.parametrize(
        "host",
        [b"evil.example", b"evil.example:80", b"localhost.evil.example", b"127.0.0.2", b"[::1]"],
    )
    def test_foreign_names_are_rejected(self, site: PageSite, host: bytes) -> None:
        """They are rejected before anything else, for files too."""
        assert status(site, b"Host: " + host) == 421
        answer = site.browser().ask("GET", "/files/page.css", headers={"Host": host.decode()})
        assert answer.status == 421
        signing_in = site.browser().ask("POST", "/sign-in", {}, {"Host": host.decode()})
        assert signing_in.status == 421

    @pytest.mark.parametrize(
        "lines",
        [
            [],
            [b"Host:"],
            [b"Host: 127.0.0.1", b"Host: evil.example"],
            [b"Host: evil.example", b"Host: 127.0.0.1"],
            [b"Host: user@127.0.0.1"],
            [b"Host: 127.0.0.1, evil.example"],
            [b"Host: \xff"],
            [b"Host: 127.0.0.1:x"],
        ],
    )
    def test_a_request_needs_one_valid_host_header(
        self, site: PageSite, lines: list[bytes]
    ) -> None:
        """This holds also in HTTP/1.0."""
        assert status(site, *lines) == 400
        assert status(site, *lines, version=b"1.0") == 400


@given(name=st.text(max_size=40), port=st.none() | st.integers(0, 99999))
def test_host_name_removes_the_port(name: str, port: int | None) -> None:
    """Any header gives None or a part of it in lower case, also when it is repeated."""
    name_read = host_name(name if port is None else f"{name}:{port}")
    assert name_read is None or name_read in name.lower()
    assert (
        name_read is None or ":" in name_read or host_name(name_read) == name_read.removesuffix(".")
    )


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("[::1]:8080", "::1"),
        ("[FE80::1]", "fe80::1"),
        ("market.Example:443", "market.example"),
        ("a" * 400, None),
        ("", None),
        (":80", None),
        (".", None),
        (".:80", None),
        ("a b", None),
        ("a/b", None),
    ],
)
def test_host_names_are_read_from_headers(header: str, name: str | None) -> None:
    """IPv6 addresses are in brackets."""
    assert host_name(header) == name


def test_the_address_of_the_connection_is_accepted() -> None:
    """If the page is bound to all addresses, each of them is its own."""
    hosts = OwnHosts(["0.0.0.0", "market.example"])  # noqa: S104 - nothing is bound here
    assert hosts.include("10.0.0.5", "10.0.0.5")
    assert hosts.include("10.0.0.5", "::ffff:10.0.0.5")
    assert hosts.include("fe80::1", "fe80::1%eth0")
    assert hosts.include("market.example", LOCAL)
    assert not hosts.include("10.0.0.6", "10.0.0.5")
    assert not hosts.include("example", LOCAL)
