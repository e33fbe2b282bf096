"""Identities: the users of logins, as OpenNebula knows them."""

import hmac
import re
import secrets
import xmlrpc.client
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from twisted.internet.defer import Deferred

from merkatd.base.clock import Clock
from merkatd.base.deferreds import SharedResult, within
from merkatd.opennebula.rpc.errors import (
    LongAnswerError,
    OneAuthenticationError,
    OneError,
    OneForbiddenError,
    OneMissingError,
    value_of,
)
from merkatd.opennebula.rpc.http_reply import TooLongError
from merkatd.opennebula.rpc.transport import Transport
from merkatd.opennebula.rpc.xml_elements import (
    BrokenError,
    Element,
    UnreadableError,
    children,
    ids,
    only_child,
    optional_text,
    text,
    whole,
)
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.service.base.errors import NotAuthenticatedError

ADMINISTRATOR = 0
"""The id of oneadmin, and of the group oneadmin."""
LONGEST_SESSION = 1024
_MOST_KEPT = 10_000
_ASKING_S = 10.0
_FAMILIAR_S = 3_600.0
_NOBODY = "User couldn't be authenticated, aborting."
_CARRIED = re.compile(r"[\t\n\r\x20-\ud7ff\ue000-\ufffd]*")
"""The characters of a login: OpenNebula's server accepts no others in a call."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A user of OpenNebula."""

    uid: int
    name: str
    groups: frozenset[int]
    """The ids of all its groups."""
    group: int
    """The id of its primary group."""

    @property
    def is_admin(self) -> bool:
        """Return whether the user may do everything."""
        return self.uid == ADMINISTRATOR or ADMINISTRATOR in self.groups


@dataclass(frozen=True, slots=True)
class _LoginAnswer:
    """OpenNebula's answer about a login."""

    identity: Identity | None
    """The user, or None if the login is invalid."""
    until_s: float
    """The time until which the answer is valid."""


class SignIns:
    """The users of session strings. Neither passwords nor texts that contain them are stored."""

    def __init__(
        self, transport: Transport, clock: Clock, *, kept_s: float, refusal_kept_s: float
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._kept_s = kept_s
        self._refusal_kept_s = refusal_kept_s
        self._key = secrets.token_bytes(32)
        self._accepted: dict[bytes, _LoginAnswer] = {}
        self._refused: dict[bytes, _LoginAnswer] = {}
        """Separate from the accepted logins, so that wrong logins can't displace these."""
        self._good_s: OrderedDict[bytes, float] = OrderedDict()
        """The time at which each login was last accepted."""
        self._asking: dict[bytes, SharedResult[_LoginAnswer]] = {}

    async def identify(self, session: str) -> Identity:
        """Return the user of this login. Raise NotAuthenticatedError if the login is invalid."""
        if not is_login(session):
            raise NotAuthenticatedError(_NOBODY)
        name = self._name(session)
        answer = self._answer_of(name) or await self._shared_answer(name, session)
        if answer.identity is None:
            raise NotAuthenticatedError(_NOBODY)
        return answer.identity

    def is_known(self, session: str) -> bool:
        """Return whether `identify` answers without a call to OpenNebula."""
        return is_login(session) and self._answer_of(self._name(session)) is not None

    def is_good(self, session: str) -> bool:
        """Return whether `identify` returns a user without a call to OpenNebula."""
        answer = self._answer_of(self._name(session)) if is_login(session) else None
        return answer is not None and answer.identity is not None

    def is_familiar(self, session: str) -> bool:
        """Return whether the login was accepted in the last hour, and never rejected since."""
        if not is_login(session):
            return False
        good_s = self._good_s.get(self._name(session))
        return good_s is not None and self._clock.seconds() - good_s <= _FAMILIAR_S

    def _name(self, session: str) -> bytes:
        return blake2b(session.encode(), key=self._key, digest_size=32).digest()

    def _answer_of(self, name: bytes) -> _LoginAnswer | None:
        """Return OpenNebula's stored answer if it is still valid."""
        answer = self._accepted.get(name) or self._refused.get(name)
        return answer if answer is not None and answer.until_s > self._clock.seconds() else None

    async def ask(self, session: str, method: str, *arguments: Any) -> Any:
        """Return OpenNebula's answer to a call with this login.

        Raise OneError, or CloudUnreachableError if there is no answer.
        """
        call: Coroutine[Deferred[Any], Any, Any] = self._transport.call(method, session, *arguments)
        try:
            return value_of(await within(_ASKING_S, self._clock, call), method, "")
        except TooLongError as error:
            raise LongAnswerError(method, "", error.most_bytes, error.head) from None
        except (OSError, xmlrpc.client.Error, ValueError) as error:
            # The error's text may contain the login that was sent, so it is dropped.
            raise CloudUnreachableError(
                f"OpenNebula gave no answer ({type(error).__name__})"
            ) from None

    async def _shared_answer(self, name: bytes, session: str) -> _LoginAnswer:
        """Return OpenNebula's answer; simultaneous requests with the same login share a call."""
        asking = self._asking.get(name)
        if asking is None:
            asking = self._asking[name] = SharedResult(self._fresh_answer(name, session))
            if asking.over:
                del self._asking[name]
        return await asking.result()

    async def _fresh_answer(self, name: bytes, session: str) -> _LoginAnswer:
        try:
            answer = await self._request_answer(session)
        finally:
            self._asking.pop(name, None)
        self._keep(name, answer)
        return answer

    def _keep(self, name: bytes, answer: _LoginAnswer) -> None:
        self._good_s.pop(name, None)
        self._accepted.pop(name, None)
        self._refused.pop(name, None)
        now_s = self._clock.seconds()
        if answer.identity is None:
            self._refused = _with_room(self._refused, now_s)
            self._refused[name] = answer
            return
        self._accepted = _with_room(self._accepted, now_s)
        self._accepted[name] = answer
        self._good_s[name] = now_s
        while len(self._good_s) > _MOST_KEPT:
            self._good_s.popitem(last=False)

    async def _request_answer(self, session: str) -> _LoginAnswer:
        try:
            user = await self.ask(session, "one.user.info", -1)
        except OneAuthenticationError:
            return _LoginAnswer(None, self._clock.seconds() + self._refusal_kept_s)
        except (OneForbiddenError, OneMissingError) as error:
            raise NotAuthenticatedError(error.text) from None
        except OneError as error:
            # The login may be right: as long as OpenNebula elects a leader, all calls fail.
            raise CloudUnreachableError(
                f"OpenNebula can't check logins now: {error.text}"
            ) from None
        return _LoginAnswer(_identity(user, session), self._clock.seconds() + self._kept_s)


def is_login(session: str) -> bool:
    """Return whether this can be a user's login; if not, `SignIns.identify` rejects it at once."""
    fits = 3 <= len(session) <= LONGEST_SESSION and ":" in session
    return fits and _CARRIED.fullmatch(session) is not None


def _with_room(answers: dict[bytes, _LoginAnswer], now_s: float) -> dict[bytes, _LoginAnswer]:
    """Return the answers with room for a new answer: drop the expired ones, or else all."""
    if len(answers) < _MOST_KEPT:
        return answers
    kept = {name: answer for name, answer in answers.items() if answer.until_s > now_s}
    return kept if len(kept) < _MOST_KEPT else {}


def _identity(user: Any, session: str) -> Identity:
    try:
        user_element = only_child(str(user), "USER")
        parts = children(user_element)
        own = whole(parts, "GID")
        groups = {own, *ids(parts["GROUPS"].iterchildren("ID"))} if "GROUPS" in parts else {own}
        narrowed = _group_of_token(user_element, session.partition(":")[2])
        if narrowed is not None:
            own, groups = narrowed, groups & {narrowed}
        return Identity(whole(parts, "ID"), text(parts, "NAME"), frozenset(groups), own)
    except (BrokenError, UnreadableError) as error:
        raise CloudUnreachableError(
            f"OpenNebula's answer about a user can't be read: {error}"
        ) from None


def _group_of_token(user: Element, password: str) -> int | None:
    """Return the group to which a login token is limited, or None for a login without limits.

    OpenNebula limits the rights of such a login in its own calls, but lists all groups here.
    """
    for row in user.iterchildren("LOGIN_TOKEN"):
        token = children(row)
        if hmac.compare_digest(optional_text(token, "TOKEN").encode(), password.encode()):
            group = whole(token, "EGID")
            return None if group < 0 else group
    return None
