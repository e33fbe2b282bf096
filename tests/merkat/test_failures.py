"""Each failure is one line with the way out, and no text of a server reaches the terminal raw."""

import json
import socket
import ssl
import threading
import xmlrpc.client
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.merkat.shell import TenantShell
from tests.onegroup.site import Site
from tests.opennebula.test_https import Authority

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\r\n`rm`"
XML_SAFE = EVIL.replace("\x1b", "\x7f").replace("\x07", "")
"""XML can't carry the characters ESC and BEL; a server that sends them sends no XML."""


@contextmanager
def answering(
    content: bytes, *, status: str = "200 OK", context: ssl.SSLContext | None = None
) -> Iterator[str]:
    """Yield the address of a server that gives this answer to every call."""
    with socket.create_server(("127.0.0.1", 0)) as port:
        port.settimeout(0.2)
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                try:
                    connection, _ = port.accept()
                    with connection:
                        _answer(connection, content, status, context)
                except (TimeoutError, OSError):
                    continue

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            scheme = "http" if context is None else "https"
            yield f"{scheme}://127.0.0.1:{port.getsockname()[1]}/RPC2"
        finally:
            over.set()
            thread.join()


def _answer(
    plain: socket.socket, content: bytes, status: str, context: ssl.SSLContext | None
) -> None:
    plain.settimeout(10)
    connection = plain if context is None else context.wrap_socket(plain, server_side=True)
    heard = b""
    while b"</methodCall>" not in heard:
        got = connection.recv(65_536)
        if not got:
            return
        heard += got
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    connection.sendall(head.encode() + content)
    connection.close()


def reply(value: Any) -> bytes:
    """Return a successful answer."""
    return xmlrpc.client.dumps(([True, value, 0],), methodresponse=True).encode()


def free_port() -> int:
    """Return a port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as port:
        number: int = port.getsockname()[1]
        return number


class TestAddress:
    """Where the daemon is."""

    def test_the_option_comes_before_the_environment_and_the_file(
        self, site: Site, away: TenantShell
    ) -> None:
        """Each is enough."""
        away.settings(f'endpoint = "{site.endpoint}"\n')
        assert "cpu" in away.ok("price")
        away.set("MERKAT_ENDPOINT", f"http://127.0.0.1:{free_port()}/RPC2")
        assert "is from MERKAT_ENDPOINT" in away.refused("price")
        assert "cpu" in away.ok(f"price --endpoint {site.endpoint}")

    def test_the_address_of_onegroup_is_known(self, site: Site, away: TenantShell) -> None:
        """Its file, too."""
        file = away.folder / ".one" / "merkat_xmlrpc"
        file.parent.mkdir()
        file.write_text(site.endpoint)
        assert "cpu" in away.ok("price")

    def test_no_address_is_answered_with_where_to_write_it(
        self, away: TenantShell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """No daemon runs at the default address."""
        default = f"http://127.0.0.1:{free_port()}/RPC2"
        for module in ("merkat.settings", "merkatd.client.merkat"):
            monkeypatch.setattr(f"{module}.DEFAULT_ENDPOINT", default)
        line = away.refused("price")
        assert "no address is set" in line
        assert "MERKAT_ENDPOINT" in line
        assert "config.toml" in line

    @pytest.mark.parametrize(
        "address",
        ["server", "ftp://server/x", "http://", "http://x:y/", "http://[::1", "http://a b"],
    )
    def test_a_wrong_address_is_shown_with_a_right_one(
        self, address: str, away: TenantShell
    ) -> None:
        """Before anything is sent."""
        away.set("MERKAT_ENDPOINT", address)
        line = away.refused("price")
        assert line.startswith("merkat price: MERKAT_ENDPOINT: the address must be like http://")

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("endpoint = ", "expected TOML"),
            ("endpiont = 'http://x'", "did you mean endpoint?"),
            ("colour = 'red'", "known: endpoint, certificate"),
            ("endpoint = 7", "endpoint must be a text"),
            ("endpoint = 'x'", "the address must be like"),
        ],
    )
    def test_mistakes_in_the_file_are_named(self, text: str, why: str, away: TenantShell) -> None:
        """With the file."""
        file = away.settings(text)
        line = away.refused("vm create vm.template")
        assert str(file) in line
        assert why in line


class TestLogin:
    """ONE_AUTH is the only password."""

    def test_a_missing_login_is_answered_with_where_to_write_it(self, shell: TenantShell) -> None:
        """With the name of the file."""
        shell.set("ONE_AUTH", str(shell.folder / "nowhere"))
        assert "nowhere contains no login: write your user:password" in shell.refused("price")

    def test_a_wrong_password_is_said_to_be_wrong(self, shell: TenantShell) -> None:
        """And never printed."""
        shell.login("ann:quite-wrong")
        for words in ("price", "vm create vm.template", "platform list"):
            line = shell.refused(words)
            assert "rejects the login in" in line
            assert "one_auth" in line
            assert "quite-wrong" not in line


class TestServers:
    """What a server that is no daemon answers."""

    @pytest.mark.parametrize(
        ("content", "status", "why"),
        [
            (b"<html>hello</html>", "200 OK", "the answer is not XML-RPC"),
            (b"", "200 OK", "the answer is not XML-RPC"),
            (b"\x00\x1b[2J", "200 OK", "the answer is not XML-RPC"),
            (b"", "404 Not Found", "the server answers 404 Not Found, not as merkatd"),
            (b"", "302 \x1b[2JFound", "the server answers 302"),
            (reply(7), "200 OK", "not as this version of merkatd"),
            (reply([{"market": EVIL[-7:]}]), "200 OK", "not as this version of merkatd"),
            (reply([]).replace(b"array", b"arrow"), "200 OK", "the answer is not XML-RPC"),
        ],
    )
    def test_other_answers_are_one_line(
        self, content: bytes, status: str, why: str, away: TenantShell
    ) -> None:
        """Without control characters."""
        with answering(content, status=status) as address:
            away.set("MERKAT_ENDPOINT", address)
            line = away.refused("price")
        assert why in line
        assert line.rstrip("\n").isprintable()

    def test_an_unreachable_server_is_named(self, away: TenantShell) -> None:
        """With where its address is from."""
        away.set("MERKAT_ENDPOINT", f"http://127.0.0.1:{free_port()}/RPC2")
        assert "no daemon answers (Connection refused)" in away.refused("bid 0 --cpu 3")
        away.set("MERKAT_ENDPOINT", "http://nowhere.invalid:2634/RPC2")
        assert "unknown host: check the address" in away.refused("price")

    def test_a_server_without_tls_is_not_asked_over_tls(
        self, site: Site, away: TenantShell
    ) -> None:
        """The line says that TLS failed, or that the server closed the connection."""
        away.set("MERKAT_ENDPOINT", site.endpoint.replace("http:", "https:"))
        line = away.refused("price")
        assert "TLS failed" in line or "closed the connection" in line

    def test_a_certificate_can_be_trusted(self, tmp_path: Path, away: TenantShell) -> None:
        """An unknown one is refused; named in the settings, it is not."""
        authority = Authority()
        certificate, own = tmp_path / "authority.pem", tmp_path / "server.pem"
        certificate.write_bytes(authority.pem)
        own.write_bytes(authority.server("127.0.0.1"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own)
        with answering(reply([]), context=context) as address:
            away.settings(f'endpoint = "{address}"\n')
            assert "the server's certificate is not trusted" in away.refused("price")
            away.settings(f'endpoint = "{address}"\ncertificate = "{certificate}"\n')
            assert away.ok("order list --csv -l ID,LIMIT") == "ID,LIMIT\n"
            away.settings(f'endpoint = "{address}"\ncertificate = "{away.folder}/vm.template"\n')
            assert "expected certificates in PEM" in away.refused("price")


@pytest.mark.parametrize("form", ["", "--csv", "--json", "--xml", "--list NAME,MESSAGE"])
def test_hostile_texts_do_not_reach_the_terminal(form: str, away: TenantShell) -> None:
    """No character that a terminal obeys is printed; JSON and XML escape it."""
    with answering(reply([{"id": 1, "name": XML_SAFE, "message": XML_SAFE}])) as address:
        away.set("MERKAT_ENDPOINT", address)
        said = away(f"list vms {form}")
    assert said.code == 0, said
    assert all(line.isprintable() for line in said.out.splitlines())
    if form == "--json":
        assert json.loads(said.out)[0]["name"] == XML_SAFE.replace("\r\n", "\n")


def test_hostile_errors_do_not_reach_the_terminal(away: TenantShell) -> None:
    """They are one line."""
    refused = [False, f"[merkat.bid.info] {XML_SAFE}", 512, 1]
    content = xmlrpc.client.dumps((refused,), methodresponse=True).encode()
    with answering(content) as address:
        away.set("MERKAT_ENDPOINT", address)
        for words in ("bid 1", "group show 1", "vm create vm.template"):
            assert away.refused(words).rstrip("\n").isprintable()
