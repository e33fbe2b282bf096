"""Sessions are bounded for each user, and no user ends those of another."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.web import browser_sessions as kept
from merkatd.web.browser_sessions import BrowserSessions
from tests.api.xmlrpc.site import ANN, BOB
from tests.web.site import PageSite


def sessions(most_per_user: int = 3, seconds: Any = lambda: 0.0) -> BrowserSessions:
    """Sessions that only their number ends."""
    return BrowserSessions(seconds, longest_s=1e9, idle_s=1e9, most_per_user=most_per_user)


def alive(made: BrowserSessions, token: str) -> bool:
    """Whether the session of this token goes on."""
    return made.of(token, by_hand=False) is not None


@given(users=st.lists(st.integers(0, 3), max_size=40), most=st.integers(1, 4))
def test_each_user_keeps_its_newest_sessions(users: list[int], most: int) -> None:
    """Exactly as many as are allowed, whatever the others do."""
    made = sessions(most)
    tokens = [(user, made.begin(f"user{user}:x", user)) for user in users]
    for user in set(users):
        own = [token for one, token in tokens if one == user]
        assert [alive(made, token) for token in own] == [
            at >= len(own) - most for at in range(len(own))
        ]


def test_ten_thousand_sessions_of_one_user_end_no_session_of_another() -> None:
    """And memory holds no more than are allowed."""
    made = sessions(20)
    bob = made.begin("bob:x", 2)
    for _ in range(kept.MOST_KEPT + 10):
        made.begin("ann:x", 1)
    assert alive(made, bob)
    assert len(made._kept) == 21
    assert sum(map(len, made._of_user.values())) == 21


def test_where_all_are_too_many_the_user_with_the_most_gives_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user with one session keeps it."""
    monkeypatch.setattr(kept, "MOST_KEPT", 6)
    made = sessions(5)
    bob = made.begin("bob:x", 2)
    first = made.begin("ann:x", 1)
    for _ in range(4):
        made.begin("ann:x", 1)
    cy = made.begin("cy:x", 3)
    assert [alive(made, one) for one in (bob, first, cy)] == [True, False, True]
    assert len(made._kept) == 6


def test_what_is_over_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that has ended by time takes no room from one that goes on."""
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
    """Whoever has kept the old cookie is out, also where another user signs in."""
    browser = site.browser(ANN)
    for login in (ANN, BOB):
        old = browser.cookie
        assert browser.sign_in(login).status == 303
        assert browser.cookie != old
        assert browser.get("/").status == 200
        stranger = site.browser()
        stranger.cookie = old
        assert stranger.get("/").status == 303


def test_a_sign_in_that_fails_ends_nothing(site: PageSite) -> None:
    """A wrong password costs nobody the session that is there."""
    browser = site.browser(ANN)
    assert browser.sign_in("ann:wrong").status == 401
    assert browser.get("/").status == 200


def test_a_cookie_from_elsewhere_is_never_taken_over(site: PageSite) -> None:
    """Session fixation: the token of a sign-in is always new."""
    browser = site.browser()
    browser.cookie = "merkat=" + "A" * 43
    assert browser.sign_in(ANN).status == 303
    assert browser.cookie != "merkat=" + "A" * 43
