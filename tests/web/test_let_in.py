"""A form is parsed only after its sender is authorized; strangers' bytes only count."""

from types import SimpleNamespace
from typing import Any

import pytest

from merkatd.api.http.admission import Admission
from merkatd.api.http.settings import ApiSettings
from merkatd.service.base.identity import Identity
from merkatd.web.base import form_reader
from merkatd.web.base.form_reader import MOST_FORM_BYTES, MOST_LONG_BYTES
from merkatd.web.base.live_updates import Listeners
from merkatd.web.base.stored_answers import StoredAnswers
from merkatd.web.browser_sessions import BrowserSessions
from merkatd.web.site import MOST_SIGN_IN_BYTES, WebSite
from tests.web.visits import HOST, Visits

_LOGIN = "ann:hush"
_CALLS = 100.0
"""Calls of an address in a second, and in a burst."""


class SignIns:
    """Logins that are all known."""

    def is_known(self, _login: str) -> bool:
        """Return True without a call."""
        return True

    is_good = is_familiar = is_known

    async def identify(self, _login: str) -> Identity:
        """Return the only user."""
        return Identity(5, "ann", frozenset({1}), 1)


class Page:
    """A page without a daemon that records the forms that it parses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def site(asked: Any) -> Any:
            return await self.site.visit(asked)

        self.visits = Visits(site)
        clock = self.visits.clock
        settings = ApiSettings(address_calls=_CALLS, user_calls=_CALLS, burst_s=1.0)
        sign_ins: Any = SignIns()
        daemon = SimpleNamespace(touch_database=None)
        house = SimpleNamespace(daemon=daemon)
        dispatch: Any = SimpleNamespace(house=house, admission=Admission(sign_ins, settings, clock))
        self.sessions = BrowserSessions(clock.seconds, longest_s=1e6, idle_s=1e6, most_per_user=3)
        self.site = WebSite(
            dispatch,
            self.sessions,
            Listeners(clock, most=1, most_per_user=1),
            recall=StoredAnswers(clock, clock.seconds),
            cookie="merkat",
            secure=False,
        )
        self.read: list[int] = []
        real = form_reader.fields_of

        def fields_of(text: bytes) -> Any:
            self.read.append(len(text))
            return real(text)

        monkeypatch.setattr(form_reader, "fields_of", fields_of)

    def post(self, path: str, body: bytes, cookie: str = "", more: bytes = b"") -> int:
        """Return the status of the answer to a form with these bytes."""
        head = f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\nCookie: merkat={cookie}\r\n"
        own = more or b"Sec-Fetch-Site: same-origin\r\n"
        kind = b"Content-Type: application/x-www-form-urlencoded\r\n"
        answer = self.visits.say(head.encode() + HOST + kind + own + b"\r\n" + body)
        return int(answer.split(b" ", 2)[1])


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    """Return a page for one test."""
    return Page(monkeypatch)


def large(size: int) -> bytes:
    """Return a form of `size` bytes that are all slow to decode."""
    return b"a=" + b"%" * (size - 2)


def test_a_strangers_form_is_not_parsed(page: Page) -> None:
    """This holds for any address and any form."""
    assert page.post("/nothing", large(MOST_LONG_BYTES)) == 401
    page.visits.clock.advance(100)
    assert page.post("/platforms/quote", large(MOST_LONG_BYTES), "made-up") == 401
    assert page.read == []


def test_a_form_of_another_site_is_not_parsed(page: Page) -> None:
    """This holds also with a session that a browser sends along."""
    token = page.sessions.begin(_LOGIN, 5)
    more = b"Sec-Fetch-Site: cross-site\r\n"
    assert page.post("/vms/1/bid", b"form=x", token, more) == 403
    assert page.read == []


def test_a_strangers_bytes_count_as_calls(page: Page) -> None:
    """A KiB counts as one, so a hundred calls a second allow no megabytes."""
    assert page.post("/nothing", large(90_000)) == 401
    assert page.post("/nothing", large(20_000)) == 429
    assert page.post("/nothing", large(5_000)) == 401
    page.visits.clock.advance(1.0)
    assert page.post("/nothing", large(90_000)) == 401
    assert page.read == []


def test_a_users_bytes_count_as_its_calls(page: Page) -> None:
    """Four KiB count as one, and a form beyond the limit is not parsed."""
    token = page.sessions.begin(_LOGIN, 5)
    sent = [page.post("/platforms/quote", large(MOST_LONG_BYTES), token) for _ in range(4)]
    assert sent == [403, 403, 403, 429]
    assert page.read == [MOST_LONG_BYTES] * 3


def test_a_sign_in_form_is_short(page: Page) -> None:
    """It has only a name and a password, and comes from strangers."""
    assert page.post("/sign-in", large(MOST_SIGN_IN_BYTES + 1)) == 413
    assert page.read == []
    assert page.post("/sign-in", b"user=ann&password=hush") == 303
    assert len(page.read) == 1


def test_only_templates_and_plans_may_be_long(page: Page) -> None:
    """All other forms of signed-in users are rejected unparsed beyond some KiB."""
    token = page.sessions.begin(_LOGIN, 5)
    for path in ("/vms/1/bid", "/sign-out", "/platforms/1/change", "/daemon/mode"):
        assert page.post(path, large(MOST_FORM_BYTES + 1), token) == 413
    assert page.post("/nothing", large(MOST_FORM_BYTES + 1), token) == 404
    assert page.read == []
    assert page.post("/vms/1/bid", large(MOST_FORM_BYTES), token) == 403
    assert page.post("/platforms/submit", large(MOST_LONG_BYTES), token) == 403


def test_a_page_that_asks_for_updates_does_not_keep_its_session(page: Page) -> None:
    """Its script asks again and again, if too many pages listen: no person has clicked."""
    token = page.sessions.begin(_LOGIN, 5)
    page.sessions._kept[next(iter(page.sessions._kept))].idle_until_s = 1_000.0
    get = f"GET /live HTTP/1.1\r\nCookie: merkat={token}\r\n".encode() + HOST + b"\r\n"
    page.visits.say(get)
    for _ in range(9):
        page.visits.clock.advance(100.0)
        assert page.visits.say(get).split(b" ", 2)[1] == b"429"
    page.visits.clock.advance(101.0)
    assert page.visits.say(get).split(b" ", 2)[1] == b"401"
