"""Who calls: OpenNebula is asked, and its word is kept for seconds under a keyed hash."""

import re
import secrets
import xmlrpc.client
from collections.abc import Coroutine
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from merkatd.api.once import Once
from merkatd.api.xmlrpc.words import Code, Refusal
from merkatd.opennebula.elements import (
    BrokenError,
    UnreadableError,
    children,
    ids,
    one,
    text,
    whole,
)
from merkatd.opennebula.errors import AuthenticationError, OneError, value_of
from merkatd.opennebula.waiting import Time, within
from merkatd.scheduler.ports import UnreachableError

ADMINISTRATOR = 0
"""The id of oneadmin, and of the group oneadmin."""
LONGEST_SESSION = 1024
_MOST_KEPT = 10_000
_ASKING_S = 10.0
_NOBODY = "User couldn't be authenticated, aborting."
_CARRIED = re.compile(r"[\t\n\r\x20-\ud7ff\ue000-\ufffd]*")
"""What a call can carry: OpenNebula's server takes no other characters, so they are in no login."""


class Transport(Protocol):
    """Carries calls to OpenNebula."""

    async def call(self, method: str, *arguments: Any) -> list[Any]:
        """The array that it answers with."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A user, as OpenNebula knows it."""

    uid: int
    name: str
    groups: frozenset[int]
    group: int
    """Its own one of these."""

    @property
    def is_admin(self) -> bool:
        """Whether it may do everything."""
        return self.uid == ADMINISTRATOR or ADMINISTRATOR in self.groups


@dataclass(frozen=True, slots=True)
class _Word:
    """What OpenNebula said of a login: who it is, or that it is nobody's."""

    identity: Identity | None
    until_s: float


class Logins:
    """Knows who a session string belongs to. No password is kept, nor anything it shows in."""

    def __init__(
        self, transport: Transport, clock: Time, *, kept_s: float, refusal_kept_s: float
    ) -> None:
        self._transport = transport
        self._clock = clock
        self._kept_s = kept_s
        self._refusal_kept_s = refusal_kept_s
        self._key = secrets.token_bytes(32)
        self._words: dict[bytes, _Word] = {}
        self._asking: dict[bytes, Once[_Word]] = {}

    async def who(self, session: str) -> Identity:
        """The user whose login this is. Raises Refusal."""
        if not 3 <= len(session) <= LONGEST_SESSION or ":" not in session:
            raise Refusal(Code.AUTHENTICATION, _NOBODY)
        if not _CARRIED.fullmatch(session):
            raise Refusal(Code.AUTHENTICATION, _NOBODY)
        name = blake2b(session.encode(), key=self._key, digest_size=32).digest()
        word = self._words.get(name)
        if word is None or word.until_s <= self._clock.seconds():
            word = await self._asked(name, session)
        if word.identity is None:
            raise Refusal(Code.AUTHENTICATION, _NOBODY)
        return word.identity

    async def ask(self, session: str, method: str, *arguments: Any) -> Any:
        """What OpenNebula answers to a call of this user's. Raises OneError, UnreachableError."""
        call: Coroutine[Deferred[Any], Any, Any] = self._transport.call(method, session, *arguments)
        try:
            return value_of(await within(_ASKING_S, self._clock, call), method, "")
        except (OSError, xmlrpc.client.Error, ValueError) as error:
            # Whatever it was, its words may hold what was sent.
            raise UnreachableError(f"OpenNebula gave no answer ({type(error).__name__})") from None

    async def _asked(self, name: bytes, session: str) -> _Word:
        """Those who come with the same login at once wait for one answer."""
        asking = self._asking.get(name)
        if asking is None:
            asking = self._asking[name] = Once(self._fresh(name, session))
            if asking.over:
                del self._asking[name]
        return await asking.result()

    async def _fresh(self, name: bytes, session: str) -> _Word:
        try:
            word = await self._word(session)
        finally:
            self._asking.pop(name, None)
        if len(self._words) >= _MOST_KEPT:
            self._forget()
        self._words[name] = word
        return word

    async def _word(self, session: str) -> _Word:
        try:
            user = await self.ask(session, "one.user.info", -1)
        except AuthenticationError:
            return _Word(None, self._clock.seconds() + self._refusal_kept_s)
        except OneError as error:
            raise Refusal(Code.AUTHENTICATION, error.text) from None
        return _Word(_identity(user), self._clock.seconds() + self._kept_s)

    def _forget(self) -> None:
        now_s = self._clock.seconds()
        kept = {name: word for name, word in self._words.items() if word.until_s > now_s}
        self._words = kept if len(kept) < _MOST_KEPT else {}


def _identity(user: Any) -> Identity:
    try:
        parts = children(one(str(user), "USER"))
        groups = ids(parts["GROUPS"].iterchildren("ID")) if "GROUPS" in parts else ()
        own = whole(parts, "GID")
        return Identity(whole(parts, "ID"), text(parts, "NAME"), frozenset({own, *groups}), own)
    except (BrokenError, UnreadableError) as error:
        raise UnreachableError(f"what OpenNebula says of a user can't be read: {error}") from None
