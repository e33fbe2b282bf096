"""Behind https the server proves its identity; an unproven server receives nothing."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
import threading
import xmlrpc.client
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from merkatd.base.clock import Inline
from merkatd.opennebula import Client, HttpTransport, TrustError
from merkatd.scheduler.base.ports import CloudUnreachableError
from tests.opennebula.worlds import ADMIN, RealTime

REPLY = xmlrpc.client.dumps(([True, "7.4.0", 0],), methodresponse=True).encode()


class Authority:
    """An authority that signs servers' certificates."""

    def __init__(self, name: str = "ours") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        usage = x509.BasicConstraints(ca=True, path_length=None)
        self._certificate = self._signed(self._name, self._key, usage)

    @property
    def pem(self) -> bytes:
        """Return the certificate to trust."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def server(self, address: str) -> bytes:
        """Return certificate and key of a server at this address."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        certificate = self._signed(_name(address), key, names)
        return certificate.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def _signed(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType
    ) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(extension, critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class _Answers(BaseHTTPRequestHandler):
    """The same answer for every request."""

    def do_POST(self) -> None:
        """Answer a call."""
        self.server.calls += 1  # type: ignore[attr-defined]
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(REPLY)))
        self.end_headers()
        self.wfile.write(REPLY)

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


class _Quiet(HTTPServer):
    calls = 0

    def handle_error(self, *_arguments: object) -> None:
        """Ignore clients that reject the certificate."""


class Server:
    """An https server on a port and a thread of its own."""

    def __init__(self, time: RealTime, identity: Path) -> None:
        self._time = time
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity)
        self._server = _Quiet(("127.0.0.1", 0), _Answers)
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.endpoint = f"https://127.0.0.1:{self._server.server_port}/RPC2"

    @property
    def calls(self) -> int:
        """Return the number of received calls."""
        return self._server.calls

    def version(self, authorities: Path | None) -> Any:
        """Return its answer to a client that trusts these authorities."""
        http = HttpTransport(self._time.reactor, self.endpoint, Inline(), authorities=authorities)
        client = Client(http, ADMIN, self._time.reactor, timeout_s=5.0, attempts=1)
        try:
            return self._time.run(client.call("one.system.version"))
        finally:
            self._time.run(http.close())

    def stop(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture(scope="module")
def authority() -> Authority:
    """Return one authority for all tests."""
    return Authority()


@pytest.fixture
def trusted(tmp_path: Path, authority: Authority) -> Path:
    """Return a file with two authorities, the second of which is the server's."""
    path = tmp_path / "authorities.pem"
    path.write_bytes(b"# ours\n" + Authority("another").pem + authority.pem)
    return path


@pytest.fixture(autouse=True)
def _reactor_of_tests(real_time: RealTime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the tests' reactor for TLS, which gathers small writes on the process's one reactor."""
    monkeypatch.setattr("twisted.protocols.tls._get_default_clock", lambda: real_time.reactor)


@pytest.fixture
def server(real_time: RealTime, authority: Authority, tmp_path: Path) -> Iterator[Server]:
    """Yield a server with a valid certificate."""
    yield from _served(real_time, authority.server("127.0.0.1"), tmp_path)


@pytest.fixture
def impostor(real_time: RealTime, authority: Authority, tmp_path: Path) -> Iterator[Server]:
    """Yield a server with the certificate of another address."""
    yield from _served(real_time, authority.server("127.0.0.2"), tmp_path)


def _served(time: RealTime, identity: bytes, folder: Path) -> Iterator[Server]:
    path = folder / "identity.pem"
    path.write_bytes(identity)
    started = Server(time, path)
    yield started
    started.stop()


def test_a_server_of_a_trusted_authority_is_accepted(server: Server, trusted: Path) -> None:
    """Any authority in the file counts."""
    assert server.version(trusted) == "7.4.0"


def test_a_server_of_an_unknown_authority_is_rejected(server: Server, tmp_path: Path) -> None:
    """Neither the system nor the file knows it, and it never receives the password."""
    stranger = tmp_path / "stranger.pem"
    stranger.write_bytes(Authority("stranger").pem)
    for authorities in (None, stranger):
        with pytest.raises(CloudUnreachableError, match="certificate verify failed"):
            server.version(authorities)
    assert server.calls == 0


def test_a_server_with_another_name_is_rejected(impostor: Server, trusted: Path) -> None:
    """Its certificate belongs to another address."""
    with pytest.raises(CloudUnreachableError, match="VerificationError"):
        impostor.version(trusted)
    assert impostor.calls == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "can't be read: No such file"),
        ("", "contains no certificate; expected certificates in PEM"),
        ("-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----", "contains an invalid cert"),
    ],
)
def test_an_invalid_file_of_authorities_is_an_error(
    real_time: RealTime, tmp_path: Path, text: str | None, why: str
) -> None:
    """Nothing is sent, and the system's authorities are not used instead."""
    path = tmp_path / "authorities.pem"
    if text is not None:
        path.write_text(text)
    with pytest.raises(TrustError, match=f"authorities.pem: {why}"):
        HttpTransport(real_time.reactor, "https://localhost/", Inline(), authorities=path)
