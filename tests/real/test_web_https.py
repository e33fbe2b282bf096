"""The page over https: cookies for https only, and streams that end with the daemon."""

import http.client
import ssl
import subprocess
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

from tests.api.xmlrpc.site import ANN, Site


def test_a_page_with_a_certificate(tmp_path: Path) -> None:
    """The cookie is bound to https and this host; listeners learn of the daemon's end at once."""
    pem, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    words += " -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(
        ["openssl", *words.split(), "-keyout", key, "-out", pem], check=True, capture_output=True
    )
    site = Site(tmp_path, f'[web]\ncertificate = "{pem}"\nkey = "{key}"')
    try:
        address = (site.state / "merkat_web").read_text().strip()
        assert address.startswith("https://127.0.0.1:")
        where = address.removeprefix("https://").rstrip("/")
        context = ssl.create_default_context(cafile=str(pem))
        user, _, password = ANN.partition(":")
        form = urlencode({"user": user, "password": password})
        kind = {"Content-Type": "application/x-www-form-urlencoded", "Origin": address.rstrip("/")}
        with closing(http.client.HTTPSConnection(where, timeout=60, context=context)) as connection:
            connection.request("POST", "/sign-in", form, kind)
            answer = connection.getresponse()
            answer.read()
            cookie = answer.headers["Set-Cookie"]
        assert answer.status == 303
        assert cookie.startswith("__Host-merkat=")
        attributes = set(cookie.split("; "))
        assert {"Secure", "HttpOnly", "SameSite=Strict", "Path=/"} <= attributes
        assert answer.headers["Strict-Transport-Security"].startswith("max-age=")
        with closing(http.client.HTTPSConnection(where, timeout=60, context=context)) as two:
            two.request("GET", "/live", headers={"Cookie": cookie.partition(";")[0]})
            stream = two.getresponse()
            assert stream.readline() == b"retry: 3000\n"
            site.end()
            assert (
                b"event: " not in stream.read().rpartition(b"\n\n")[2]
            )  # the stream ends, and is complete
    finally:
        if site.program.running:
            site.end()
