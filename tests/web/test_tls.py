"""With a certificate: only https, HSTS, and the names of the certificate."""

import http.client
import re
import signal
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.xmlrpc.site import PASSWORD, Site, until

NAMES = "IP:127.0.0.1,DNS:market.example,DNS:*.wild.example"


def make_certificate(pem: Path, key: Path, names: str = NAMES) -> None:
    """Make a certificate with these names."""
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    words += f" -subj /CN=x -addext subjectAltName={names}"
    command = ["openssl", *words.split(), "-keyout", str(key), "-out", str(pem)]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ssl.SSLContext]]:
    """Yield the address of a page with a certificate, and a context that trusts it."""
    folder: Path = tmp_path_factory.mktemp("tls")
    pem, key = folder / "cert.pem", folder / "key.pem"
    make_certificate(pem, key)
    web = f'[web]\ncertificate = "{pem}"\nkey = "{key}"\nhosts = ["other.example"]'
    made = Site(folder, web)
    try:
        address = (made.state / "merkat_web").read_text().strip()
        assert address.startswith("https://")
        yield address[8:-1], ssl.create_default_context(cafile=str(pem))
    finally:
        made.end()


def ask(
    page: tuple[str, ssl.SSLContext], path: str, body: str | None = None, host: str = "127.0.0.1"
) -> http.client.HTTPResponse:
    """Return the answer to a GET, or to a POST of this form."""
    where, context = page
    connection = http.client.HTTPSConnection(where, timeout=30, context=context)
    headers = {"Host": host, "Content-Type": "application/x-www-form-urlencoded"}
    if body is not None:
        headers["Origin"] = f"https://{host}"
    connection.request("GET" if body is None else "POST", path, body, headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def test_every_answer_has_hsts(page: tuple[str, ssl.SSLContext]) -> None:
    """It is valid for at least half a year."""
    for path in ("/sign-in", "/files/page.css", "/nowhere", "/"):
        said = ask(page, path).headers.get_all("Strict-Transport-Security") or []
        assert len(said) == 1, path
        found = re.fullmatch(r"max-age=(\d+)", said[0])
        assert found is not None
        assert int(found[1]) > 180 * 86_400


def test_the_cookie_is_bound_to_this_host_and_to_https(page: tuple[str, ssl.SSLContext]) -> None:
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
    page: tuple[str, ssl.SSLContext], host: str, status: int
) -> None:
    """Wildcards are not served, because they cover too much."""
    assert ask(page, "/sign-in", host=host).status == status


def test_a_renewed_certificate_is_served_after_a_reload(tmp_path: Path) -> None:
    """Both servers use its names; an unreadable one keeps the old one, with a log line."""
    pem, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(pem, key)
    files = f'certificate = "{pem}"\nkey = "{key}"\n'
    site = Site(tmp_path, f"{files}[web]\n{files}")
    try:
        doors = [
            (site.state / name).read_text().strip()[8:].partition("/")[0]
            for name in ("merkat_web", "merkat_xmlrpc")
        ]
        old = pem.read_text()
        make_certificate(pem, key, f"{NAMES},DNS:new.example")
        site.program.send_signal(signal.SIGHUP)
        until(lambda: served_certificate(doors[0]) == pem.read_text(), "the new certificate")
        assert served_certificate(doors[1]) == pem.read_text() != old
        new = pem.read_text()
        context = ssl.create_default_context(cafile=str(pem))
        assert ask((doors[0], context), "/sign-in", host="new.example").status == 200
        assert site.order("status")["configuration"] is None
        pem.write_text("no certificate")
        site.program.send_signal(signal.SIGHUP)
        until(lambda: site.order("status")["configuration"], "the word on it")
        said = site.order("status")["configuration"]
        assert said.startswith("in force, but the old certificate stays in use: web.certificate: ")
        assert "api.certificate" in said
        assert [served_certificate(door) for door in doors] == [new, new]
    finally:
        site.end()


def served_certificate(door: str) -> str:
    """Return the certificate that a server presents."""
    host, _, port = door.partition(":")
    return ssl.get_server_certificate((host, int(port)))
