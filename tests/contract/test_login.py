"""Login tokens: an administrator acts as a user for a limited time, with the user's rights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.contract.endpoint import SMALL

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint

USERS, ALL_GROUPS = 1, -1
LOGIN = "one.user.login"


def named(session: str) -> str:
    """Return the name in a session."""
    return session.partition(":")[0]


def tokens(endpoint: Endpoint, user: int) -> dict[str, str]:
    """Return a user's tokens and the groups that they are restricted to."""
    shown = endpoint.xml("one.user.info", user)
    return {
        row.findtext("TOKEN") or "": row.findtext("EGID") or ""
        for row in shown.iterfind("LOGIN_TOKEN")
    }


def wait_until_over(endpoint: Endpoint, session: str) -> None:
    """Wait until a session's token has expired."""
    endpoint.until(
        lambda: endpoint.raw("one.user.info", -1, session=session)[0] is False,
        "the token is over",
        patience_s=600,
    )


def test_an_administrator_gets_a_users_token_for_the_users_group(endpoint: Endpoint) -> None:
    """Only the user may request a token for all of the user's groups."""
    user, ann = endpoint.user()
    name = named(ann)
    assert endpoint.refused(LOGIN, name, "", 60, ALL_GROUPS) == (
        4096,
        f"[{LOGIN}] Cannot create a full token with a specific group token",
    )
    made = endpoint.ok(LOGIN, name, "", 60, USERS)
    assert endpoint.ok(LOGIN, name, "mine", 60, USERS) == "mine"
    assert endpoint.ok(LOGIN, name, "all", 60, ALL_GROUPS, session=ann) == "all"
    assert tokens(endpoint, user) == {made: "1", "mine": "1", "all": "-1"}


def test_a_token_acts_as_the_user(endpoint: Endpoint) -> None:
    """VMs created with it belong to the user, and the user's limits apply."""
    user, ann = endpoint.user()
    endpoint.ok(LOGIN, named(ann), "t", 60, USERS)
    session = f"{named(ann)}:t"
    vm = endpoint.new(SMALL, session)
    shown = endpoint.xml("one.vm.info", vm)
    assert (shown.findtext("UID"), shown.findtext("GID")) == (str(user), "1")
    assert (
        endpoint.refused("one.vm.allocate", f'{SMALL}RAW\n=[DATA="x"]', session=session)[0] == 512
    )
    assert endpoint.refused("one.vm.deploy", vm, endpoint.hosts[0], session=session)[0] == 512


def test_a_token_of_one_group_has_only_the_rights_of_that_group(endpoint: Endpoint) -> None:
    """The user's other groups don't count; a foreign group gives no login."""
    group = endpoint.ok("one.group.allocate", endpoint.name())
    user, ann = endpoint.user((USERS, group))
    name = named(ann)
    for token, its in (("own", USERS), ("other", group), ("foreign", 0)):
        endpoint.ok(LOGIN, name, token, 60, its)
    assert endpoint.new(session=f"{name}:own") >= 0
    code, text = endpoint.refused("one.vm.allocate", SMALL, session=f"{name}:other")
    assert (code, text) == (
        512,
        f"[one.vm.allocate] User [{user}] : Not authorized to perform CREATE VM.",
    )
    assert endpoint.refused("one.user.info", -1, session=f"{name}:foreign")[0] == 256


def test_a_token_ends(endpoint: Endpoint) -> None:
    """It expires, or it is revoked; other tokens stay."""
    user, ann = endpoint.user()
    name = named(ann)
    for token, time_s in (("short", 1), ("long", 60), ("told", 60)):
        endpoint.ok(LOGIN, name, token, time_s, USERS)
    assert endpoint.ok(LOGIN, name, "told", 0) == "told"
    assert endpoint.refused(LOGIN, name, "told", 0) == (
        4096,
        f"[{LOGIN}] Could not find token: told",
    )
    assert endpoint.refused("one.user.info", -1, session=f"{name}:told")[0] == 256
    wait_until_over(endpoint, f"{name}:short")
    assert endpoint.ok("one.user.info", -1, session=f"{name}:long")
    assert "long" in tokens(endpoint, user)
    assert endpoint.ok(LOGIN, name, "", 0) == ""
    assert not tokens(endpoint, user)


def test_a_user_has_at_most_ten_tokens(endpoint: Endpoint) -> None:
    """Expired tokens don't count."""
    user, ann = endpoint.user()
    name = named(ann)
    endpoint.ok(LOGIN, name, "over", 1, USERS)
    wait_until_over(endpoint, f"{name}:over")
    endpoint.pause(1)
    # The second in which a token expires may not be over yet.
    endpoint.until(
        lambda: endpoint.raw(LOGIN, name, "t0", 60, USERS)[0] and len(tokens(endpoint, user)) == 1,
        "the token is forgotten",
    )
    for number in range(1, 10):
        endpoint.ok(LOGIN, name, f"t{number}", 60, USERS)
    assert endpoint.refused(LOGIN, name, "more", 60, USERS) == (
        4096,
        f"[{LOGIN}] Max number of tokens limit reached.",
    )
    assert len(tokens(endpoint, user)) == 10


def test_ordinary_users_get_only_their_own_tokens(endpoint: Endpoint) -> None:
    """The tokens are for their own groups."""
    _, ann = endpoint.user()
    bob, _ = endpoint.user()
    name = endpoint.xml("one.user.info", bob).findtext("NAME")
    code, text = endpoint.refused(LOGIN, name, "", 60, USERS, session=ann)
    assert (code, f"MANAGE USER [{bob}]" in text) == (512, True)
    assert endpoint.refused(LOGIN, named(ann), "", 60, 0, session=ann) == (
        4096,
        f"[{LOGIN}] EGID is not in user group list",
    )
    assert endpoint.refused(LOGIN, named(ann), "", -2, USERS, session=ann) == (
        4096,
        f"[{LOGIN}] Wrong valid period for token",
    )
    assert endpoint.refused(LOGIN, "contract-nobody", "", 60, USERS)[0] == 1024
