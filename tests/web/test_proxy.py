"""Behind a proxy each visitor's address counts, and no visitor can forge it."""

from collections.abc import Iterator

import pytest

from tests.api.xmlrpc.site import ANN, Site
from tests.web.browser import Browser


def sign_in(page: str, login: str, forwarded: str) -> int:
    """Return the status of a sign-in through a proxy."""
    user, _, password = login.partition(":")
    form = {"user": user, "password": password}
    return Browser(page).ask("POST", "/sign-in", form, {"X-Forwarded-For": forwarded}).status


def count_attempts(page: str, forwarded: list[str], user: str = "ann") -> int:
    """Return the number of wrong passwords, at most 40, before the page makes the visitor wait."""
    for number in range(40):
        status = sign_in(page, f"{user}:wrong{number}", forwarded[number % len(forwarded)])
        if status == 429:
            return number
        assert status == 401
    return 40


@pytest.fixture(scope="module")
def trusting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a page that trusts a proxy on the same machine."""
    made = Site(tmp_path_factory.mktemp("proxy"), '[web]\ntrusted_proxies = ["127.0.0.1"]')
    yield (made.state / "merkat_web").read_text().strip()
    made.end()


def test_wrong_passwords_count_for_the_address_from_the_proxy(trusting: str) -> None:
    """Other addresses do not wait, and forged entries in front have no effect."""
    spoofed = [f"192.0.2.{number}, 203.0.113.9" for number in range(40)]
    assert count_attempts(trusting, spoofed) < 10
    assert sign_in(trusting, "ann:x", "203.0.113.9") == 429
    assert sign_in(trusting, ANN, "203.0.113.8") == 303


def test_without_trust_the_header_is_ignored(site: Site) -> None:
    """Different addresses in the header count as one."""
    page = (site.state / "merkat_web").read_text().strip()
    assert count_attempts(page, [f"203.0.113.{number}" for number in range(40)], "eve") < 10
