"""The call that makes and ends login tokens: passwords that last for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from merkatd.embedded.access import Right
from merkatd.embedded.call import (
    ACTION,
    NO_EXISTS,
    RPC_API,
    Call,
    Refusal,
    method,
    user_target,
)
from merkatd.embedded.records import LoginToken

if TYPE_CHECKING:
    from merkatd.embedded.records import User

MOST = 10
"""How many tokens a user has at most."""
_ALL_GROUPS = -1
_FOR_EVER = -1


@method("one.user.login", "ssi?i")
def login(call: Call, name: str, token: str, valid_s: int, group: int = _ALL_GROUPS) -> str:
    """A user's token that lasts for so many seconds; 0 ends it, or all where none is named."""
    user = call.cloud.world.users.named(name)
    if user is None:
        raise Refusal(NO_EXISTS, "Error getting user Pool.")
    call.need(Right.MANAGE, user_target(user))
    most_s = call.cloud.world.settings.token_s
    if most_s == 0:
        user.tokens.clear()
        raise Refusal(ACTION, f"Login tokens are disabled for driver {user.driver}")
    if valid_s == 0:
        _end(user, token)
    elif valid_s < _FOR_EVER:
        raise Refusal(RPC_API, "Wrong valid period for token")
    else:
        if most_s > 0 and not 0 < valid_s <= most_s:
            valid_s = most_s
        _check_group(call, user, group)
        token = _add(call, user, token, valid_s, group)
    call.cloud.world.changed("user", user.id)
    return token


def _check_group(call: Call, user: User, group: int) -> None:
    """Refuse a token for more than the caller's login has."""
    own = set(user.groups) & set(call.user.groups)
    if group == _ALL_GROUPS and set(user.groups) != set(call.user.groups):
        raise Refusal(RPC_API, "Cannot create a full token with a specific group token")
    if group != _ALL_GROUPS and not call.admin and group not in own:
        raise Refusal(RPC_API, "EGID is not in user group list")


def _end(user: User, token: str) -> None:
    left = [one for one in user.tokens if token and one.text != token]
    if token and len(left) == len(user.tokens):
        raise Refusal(RPC_API, f"Could not find token: {token}")
    user.tokens = left


def _add(call: Call, user: User, token: str, valid_s: int, group: int) -> str:
    world = call.cloud.world
    now = world.stamp()
    user.tokens = [one for one in user.tokens if one.until_s == _FOR_EVER or now <= one.until_s]
    if len(user.tokens) >= MOST:
        raise Refusal(RPC_API, "Max number of tokens limit reached.")
    text = token or world.uuid().replace("-", "")
    if all(one.text != text for one in user.tokens):
        until_s = _FOR_EVER if valid_s == _FOR_EVER else now + valid_s
        user.tokens.append(LoginToken(text, until_s, group))
    return text
