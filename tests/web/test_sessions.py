"""Sessions are limited for each user, and no user ends another user's session."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.web import browser_sessions as kept
from merkatd.web.browser_sessions import BrowserSessions
from tests.api.xmlrpc.site import ANN, BOB
from tests.web.site import PageSite


def sessions(most_per_user: int = 3, seconds: Any = lambda: 0.0) -> BrowserSessions:
    """Return sessions that end only by their number."""
    return BrowserSessions(seconds, longest_s=1e9, idle_s=1e9, most_per_user=most_per_user)


def alive(made: BrowserSessions, token: str) -> bool:
    """Return whether the session of this token is valid."""
    return made.of(token, by_hand=False) is not None


@given(users=st.lists(st.integers(0, 3), max_size=40), most=st.integers(1, 4))
def test_each_user_keeps_its_newest_sessions(users: list[int], most: int) -> None:
    """Exactly the allowed number stays valid, whatever other users do."""
    made = sessions(most)
    tokens = [(user, made.begin(f"user{user}:x", user)) for user in users]
    for user in set(users):
        own = [token for name, token in tokens if name == user]
        assert [alive(made, token) for token in own] == [
            at >= len(own) - most for at in range(len(own))
        ]


def test_ten_thousand_sessions_of_one_user_end_no_session_of_another() -> None:
    """Memory has no more than the allowed number."""
    made = sessions(20)
    bob = made.begin("bob:x", 2)
    for _ in range(kept.MOST_KEPT + 10):
        made.begin("ann:x", 1)
    assert alive(made, bob)
    assert len(made._kept) == 21
    assert sum(map(len, made._of_user.values())) == 21


def test_at_the_total_limit_the_user_with_most_sessions_loses_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user with a single session keeps it."""
    monkeypatch.setattr(kept, "MOST_KEPT", 6)
    made = sessions(5)
    bob = made.begin("bob:x", 2)
    first = made.begin("ann:x", 1)
    for _ in range(4):
        made.begin("ann:x", 1)
    cy = made.begin("cy:x", 3)
    assert [alive(made, session) for session in (bob, first, cy)] == [True, False, True]
    assert len(made._kept) == 6


def test_expired_sessions_are_removed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expired session takes no place of a valid one."""
    monkeypatch.setattr(kept, "MOST_KEPT", 3)
    now = [0.0]
    made = BrowserSessions(lambda: now[0], longest_s=100.0, idle_s=10.0, most_per_user=2)
    for user in (1, 1, 2):
        made.begin("x:y", user)
    now[0] = 20.0
    third = [made.begin("x:y", 3) for _ in range(2)]
    assert all(alive(made, token) for token in third)
    assert len(made._kept) == 2


def test_signing_in_again_ends_the_old_session(site: PageSite) -> None:
    """The old cookie is invalid, also if another user signs in."""
    browser = site.browser(ANN)
    for login in (ANN, BOB):
        old = browser.cookie
        assert browser.sign_in(login).status == 303
        assert browser.cookie != old
        assert browser.get("/").status == 200
        stranger = site.browser()
        stranger.cookie = old
        assert stranger.get("/").status == 303


def test_a_failed_sign_in_ends_no_session(site: PageSite) -> None:
    """A wrong password does not end the present session."""
    browser = site.browser(ANN)
    assert browser.sign_in("ann:wrong").status == 401
    assert browser.get("/").status == 200


def test_a_given_cookie_is_never_accepted_at_sign_in(site: PageSite) -> None:
    """The token of a sign-in is always new, against session fixation."""
    browser = site.browser()
    browser.cookie = "merkat=" + "A" * 43
    assert browser.sign_in(ANN).status == 303
    assert browser.cookie != "merkat=" + "A" * 43
