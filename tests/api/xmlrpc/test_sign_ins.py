"""Logins over XML-RPC, and the data kept about them. TLS is tested with the page's."""

import sqlite3

import pytest

from merkatd.client import AuthenticationError, Merkat
from tests.api.xmlrpc.site import ANN, PASSWORD, Site, until


def test_a_new_password_works_after_seconds_and_a_wrong_one_never(site: Site) -> None:
    """OpenNebula's answer is cached for the configured time, in these tests a fraction of one."""
    user = site.opennebula(site.admin, "one.user.allocate", "cy", "one", "core")
    with site.merkat("cy:one") as cy, site.merkat("cy:another") as other:
        cy.version()
        with pytest.raises(AuthenticationError, match="couldn't be authenticated"):
            other.version()
        site.opennebula(site.admin, "one.user.passwd", user, "another")
        until(lambda: works(other), "the new password good")
        until(lambda: not works(cy), "the old one bad")


def works(merkat: Merkat) -> bool:
    """Return whether the login is valid."""
    try:
        merkat.version()
    except AuthenticationError:
        return False
    return True


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
