"""Logins over XML-RPC and TLS, and the data kept about them."""

import sqlite3
import ssl
import subprocess
from pathlib import Path

import pytest

from merkatd.client import (
    AuthenticationError,
    Merkat,
    UnreachableError,
)
from tests.api.xmlrpc.site import ANN, PASSWORD, Site, until, xmlrpc_of


class TestSignIns:
    def test_a_new_password_works_after_seconds_and_a_wrong_one_never(self, tmp_path: Path) -> None:
        """OpenNebula's answer is cached for the configured time."""
        made = Site(tmp_path, 'login = "300ms"\nrefusal = "50ms"')
        try:
            one = xmlrpc_of(made)
            with made.merkat() as ann, made.merkat("ann:another") as other:
                ann.version()
                with pytest.raises(AuthenticationError, match="couldn't be authenticated"):
                    other.version()
                assert one.one.user.passwd(made.admin, made.users["ann"], "another")[0]
                until(lambda: works(other), "the new password good")
                until(lambda: not works(ann), "the old one bad")
            one("close")()
        finally:
            made.end()


def works(merkat: Merkat) -> bool:
    """Return whether the login is valid."""
    try:
        merkat.version()
    except AuthenticationError:
        return False
    return True


def test_tls_can_be_configured(tmp_path: Path) -> None:
    """With a certificate only TLS is accepted, by clients that trust it."""
    pem, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    words += " -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(
        ["openssl", *words.split(), "-keyout", key, "-out", pem],
        check=True,
        capture_output=True,
    )
    made = Site(tmp_path, f'certificate = "{pem}"\nkey = "{key}"')
    try:
        assert made.endpoint.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(pem))
        with Merkat(made.endpoint, ANN, context=context) as ann:
            assert ann.bid_of(0).id == 0
        plain = Merkat(made.endpoint.replace("https", "http"), ANN)
        with pytest.raises(UnreachableError, match="no answer"):
            plain.version()
        plain.close()
    finally:
        made.end()


def test_no_password_is_stored(site: Site) -> None:
    """The log, the database and the files beside it have none, also after a refusal."""
    for session in (ANN, f"nobody:{PASSWORD}", f"{PASSWORD}", f"ann:{PASSWORD}x"):
        site.raw("merkat.price.info", session)
        site.raw("merkat.no.method", session)
        site.raw("merkat.bid.set", session, 0, session)
    assert PASSWORD not in site.log.read_text()
    assert "Traceback" not in site.log.read_text()
    connection = sqlite3.connect(f"file:{site.state / 'merkat.db'}?mode=ro", uri=True)
    assert PASSWORD not in "\n".join(connection.iterdump())
    connection.close()
    for path in site.state.iterdir():
        if path.is_file() and path.name not in {"cloud.db", "cloud.db-wal"}:
            assert PASSWORD.encode() not in path.read_bytes(), path
