"""With a certificate: only https, HSTS, and the names of the certificate."""

import http.client
import re
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from merkatd.client import Merkat, UnreachableError
from tests.api.xmlrpc.site import ANN, PASSWORD, Site, until

NAMES = "IP:127.0.0.1,DNS:market.example,DNS:*.wild.example"


def make_certificate(pem: Path, key: Path, names: str = NAMES) -> None:
    """Make a certificate with these names."""
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    words += f" -subj /CN=x -addext subjectAltName={names}"
    command = ["openssl", *words.split(), "-keyout", str(key), "-out", str(pem)]
    subprocess.run(command, check=True, capture_output=True)


@dataclass(frozen=True, slots=True)
class TlsPage:
    """A daemon whose page and whose interface use one certificate."""

    site: Site
    pem: Path
    key: Path
    doors: tuple[str, str]
    """Host and port of the page and of the interface."""

    @property
    def context(self) -> ssl.SSLContext:
        """A context that trusts the certificate on the disk."""
        return ssl.create_default_context(cafile=str(self.pem))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsPage]:
    """Yield a daemon with a certificate; it trusts no proxy."""
    folder: Path = tmp_path_factory.mktemp("tls")
    pem, key = folder / "cert.pem", folder / "key.pem"
    make_certificate(pem, key)
    files = f'certificate = "{pem}"\nkey = "{key}"\n'
    made = Site(folder, f'{files}[web]\n{files}hosts = ["other.example"]')
    try:
        web, api = ((made.state / name).read_text() for name in ("merkat_web", "merkat_xmlrpc"))
        assert web.startswith("https://")
        yield TlsPage(made, pem, key, (door(web), door(api)))
    finally:
        made.end()


def door(address: str) -> str:
    """Return host and port of an address with https."""
    return address.strip()[8:].partition("/")[0]


def ask(
    page: TlsPage, path: str, body: str | None = None, host: str = "127.0.0.1", **more: str
) -> http.client.HTTPResponse:
    """Return the answer to a GET, or to a POST of this form, with more headers."""
    connection = http.client.HTTPSConnection(page.doors[0], timeout=30, context=page.context)
    headers = {"Host": host, "Content-Type": "application/x-www-form-urlencoded", **more}
    if body is not None:
        headers["Origin"] = f"https://{host}"
    connection.request("GET" if body is None else "POST", path, body, headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def test_every_answer_has_hsts(page: TlsPage) -> None:
    """It is valid for at least half a year."""
    for path in ("/sign-in", "/files/page.css", "/nowhere", "/"):
        headers = ask(page, path).headers.get_all("Strict-Transport-Security") or []
        assert len(headers) == 1, path
        match = re.fullmatch(r"max-age=(\d+)", headers[0])
        assert match is not None
        assert int(match[1]) > 180 * 86_400


def test_the_cookie_is_bound_to_this_host_and_to_https(page: TlsPage) -> None:
    """No other host of the domain can set a cookie of this name."""
    answer = ask(page, "/sign-in", f"user=ann&password={PASSWORD}")
    cookie = str(answer.headers["Set-Cookie"])
    assert cookie.startswith("__Host-merkat=")
    assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("market.example", 200),
        ("other.example", 200),
        ("localhost", 200),
        ("wild.example", 421),
        ("a.wild.example", 421),
        ("x", 421),
    ],
)
def test_names_of_the_certificate_and_the_configuration_are_served(
    page: TlsPage, host: str, status: int
) -> None:
    """Wildcards are not served, because they cover too much."""
    assert ask(page, "/sign-in", host=host).status == status


def test_the_interface_accepts_only_tls(page: TlsPage) -> None:
    """Its clients must trust the certificate."""
    endpoint = page.site.endpoint
    assert endpoint.startswith("https://127.0.0.1:")
    with Merkat(endpoint, ANN, context=page.context) as ann:
        assert ann.bid_of(0).id == 0
    for where in (endpoint, endpoint.replace("https", "http")):
        with Merkat(where, ANN) as other, pytest.raises(UnreachableError, match="no answer"):
            other.version()


def test_without_trust_the_header_is_ignored(page: TlsPage) -> None:
    """Different addresses in the header count as one."""
    statuses = [
        ask(
            page,
            "/sign-in",
            f"user=eve&password=wrong{number}",
            **{"X-Forwarded-For": f"203.0.113.{number}"},
        ).status
        for number in range(8)
    ]
    assert set(statuses) == {401, 429}, statuses


def test_a_renewed_certificate_is_served_after_a_reload(page: TlsPage) -> None:
    """Both servers use its names; an unreadable one keeps the old one, with a log line."""
    site, pem, doors = page.site, page.pem, page.doors
    old = pem.read_text()
    make_certificate(pem, page.key, f"{NAMES},DNS:new.example")
    site.program.reload()
    until(lambda: served_certificate(doors[0]) == pem.read_text(), "the new certificate")
    assert served_certificate(doors[1]) == pem.read_text() != old
    new = pem.read_text()
    assert ask(page, "/sign-in", host="new.example").status == 200
    assert site.order("status")["configuration"] is None
    pem.write_text("no certificate")
    site.program.reload()
    until(lambda: site.order("status")["configuration"], "the word on it")
    message = site.order("status")["configuration"]
    assert message.startswith("in force, but the old certificate stays in use: web.certificate: ")
    assert "api.certificate" in message
    assert [served_certificate(door) for door in doors] == [new, new]


def served_certificate(where: str) -> str:
    """Return the certificate that a server presents."""
    host, _, port = where.partition(":")
    return ssl.get_server_certificate((host, int(port)))
