"""Behind a proxy each visitor's address counts, and no visitor can forge it.

`test_tls.py` has a page without a trusted proxy.
"""

from tests.api.xmlrpc.site import ANN
from tests.web.browser import Browser
from tests.web.site import PageSite


def sign_in(page: str, login: str, forwarded: str) -> int:
    """Return the status of a sign-in through a proxy."""
    user, _, password = login.partition(":")
    form = {"user": user, "password": password}
    return Browser(page).ask("POST", "/sign-in", form, {"X-Forwarded-For": forwarded}).status


def count_attempts(page: str, forwarded: list[str]) -> int:
    """Return the number of wrong passwords, at most 40, before the page makes the visitor wait."""
    for number in range(40):
        status = sign_in(page, f"ann:wrong{number}", forwarded[number % len(forwarded)])
        if status == 429:
            return number
        assert status == 401
    return 40


def test_wrong_passwords_count_for_the_address_from_the_proxy(site: PageSite) -> None:
    """Other addresses do not wait, and forged entries in front have no effect."""
    page = site.address
    spoofed = [f"192.0.2.{number}, 203.0.113.9" for number in range(40)]
    assert count_attempts(page, spoofed) < 10
    assert sign_in(page, "ann:x", "203.0.113.9") == 429
    assert sign_in(page, "ann:x", "203.0.113.8") == 401
    assert sign_in(page, ANN, "203.0.113.8") == 303
