"""With a certificate: https alone, browsers bound to it, and the names of the certificate."""

import http.client
import re
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.xmlrpc.site import PASSWORD, Site


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ssl.SSLContext]]:
    """Where a page with a certificate is served, and what trusts it."""
    folder: Path = tmp_path_factory.mktemp("tls")
    pem, key = folder / "cert.pem", folder / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    names = "IP:127.0.0.1,DNS:market.example,DNS:*.wild.example"
    words += f" -subj /CN=x -addext subjectAltName={names}"
    command = ["openssl", *words.split(), "-keyout", str(key), "-out", str(pem)]
    subprocess.run(command, check=True, capture_output=True)
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
    """The answer to a GET, or to a POST of this form."""
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


def test_browsers_are_bound_to_https(page: tuple[str, ssl.SSLContext]) -> None:
    """For at least half a year, on every answer."""
    for path in ("/sign-in", "/files/page.css", "/nowhere", "/"):
        said = ask(page, path).headers.get_all("Strict-Transport-Security") or []
        assert len(said) == 1, path
        found = re.fullmatch(r"max-age=(\d+)", said[0])
        assert found is not None
        assert int(found[1]) > 180 * 86_400


def test_the_cookie_is_bound_to_this_host_and_to_https(page: tuple[str, ssl.SSLContext]) -> None:
    """No other host of the domain can set one of this name."""
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
    """Wildcards stand for too much."""
    assert ask(page, "/sign-in", host=host).status == status
