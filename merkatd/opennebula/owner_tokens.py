"""Creation of VMs in their owners' names, with short-lived login tokens.

# Note [Owners' tokens]
OpenNebula checks restricted attributes, images, networks, VM groups, quotas and access rules for
the user that creates a VM. The daemon's own account may do everything. So the daemon creates an
owner's VM with a login token of the owner (`one.user.login`): OpenNebula then refuses the daemon
whatever it refuses the owner. The token is restricted to the owner's own group, because OpenNebula
gives an administrator no other tokens for another user.

A user has at most ten tokens. So VMs of the same owner that are created at the same time share a
token, and the last of them ends it. The daemon chooses the token's text. If the creation or the end
of a token was not answered, the daemon ends it before it makes the next token, for any owner. A
token of a daemon that died expires after LIFE_S; OpenNebula deletes it when it makes the next one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Final

from twisted.internet.defer import DeferredLock
from twisted.logger import Logger

from merkatd.base.clock import Clock
from merkatd.base.deferreds import SharedResult
from merkatd.opennebula.rpc.client import Client
from merkatd.opennebula.rpc.errors import (
    OneBadCallError,
    OneError,
    OneForbiddenError,
    WrongStateError,
)
from merkatd.opennebula.rpc.xml_elements import children, ids, object_id, only_child, text
from merkatd.scheduler.base.ports import CloudUnreachableError

_log = Logger()

LIFE_S: Final = 120
_ENOUGH_S: Final = 60.0
"""The remaining time that a token needs to be used for another VM."""
_LOGIN: Final = "one.user.login"
_TOO_MANY: Final = "Max number of tokens"
_ADMINISTRATORS: Final = 0
_TEMPLATE: Final = "<TEMPLATE>"


class NoTokensError(Exception):
    """OpenNebula gives the daemon no token for the owner; the message is OpenNebula's."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A user for whom the daemon creates VMs."""

    id: int
    name: str
    group: int
    """The user's own group."""
    admin: bool
    """Whether the user is an administrator, whom OpenNebula refuses nothing."""


def owner_of(user: str) -> Owner:
    """Return the owner from OpenNebula's text about a user.

    OpenNebula's record of the user precedes the user's own texts. These can have any length, and
    can contain a forged record, so they are not parsed.
    """
    end = user.find(_TEMPLATE)
    known = children(only_child(user if end < 0 else f"{user[:end]}</USER>", "USER"))
    groups = ids(known.get("GROUPS", ()))
    uid = object_id(known)
    admin = uid == 0 or _ADMINISTRATORS in groups
    return Owner(uid, text(known, "NAME"), object_id(known, "GID"), admin)


@dataclass(slots=True)
class _Token:
    text: str
    until_s: float
    users: int = 0


@dataclass(slots=True)
class _Desk:
    """The current token of an owner, and the requests that wait for it."""

    lock: DeferredLock = field(default_factory=DeferredLock)
    current: _Token | None = None
    waiting: int = 0


class Owners:
    """Creates VMs in their owners' names."""

    def __init__(
        self, client: Client, clock: Clock, new_token: Callable[[], str] = token_hex
    ) -> None:
        """Request tokens with the daemon's own `client`."""
        self._client = client
        self._clock = clock
        self._new_token = new_token
        self._desks: dict[tuple[int, int], _Desk] = {}
        self._unanswered: list[tuple[Owner, _Token]] = []
        """Tokens that may exist, or that OpenNebula may still create."""
        self._since: object = None
        self._read: dict[int, SharedResult[Owner]] = {}
        """The owners read since the latest observation, by user id."""

    async def read(self, user: int, shown: object) -> Owner:
        """Return a user; one reading serves all creations after an observation (`shown`)."""
        if shown is None or shown is not self._since:
            self._since, self._read = shown, {}
        known = self._read.get(user)
        if known is None or known.failed:
            known = self._read[user] = SharedResult(self._fresh(user))
        return await known.result()

    async def _fresh(self, user: int) -> Owner:
        return owner_of(await self._client.user(user))

    async def allocate(self, owner: Owner, template: str) -> int:
        """Create a VM of the owner and return its id.

        Raise NoTokensError, after which no VM was created, OneError or CloudUnreachableError.
        """
        token = await self._take(owner)
        try:
            session = f"{owner.name}:{token.text}"
            return await self._client.speaking_as(session).allocate(template)
        finally:
            await self._give_back(owner, token)

    async def _take(self, owner: Owner) -> _Token:
        desk = self._desks.setdefault((owner.id, owner.group), _Desk())
        desk.waiting += 1
        try:
            await desk.lock.acquire()
        finally:
            desk.waiting -= 1
        try:
            token = desk.current
            left_s = 0.0 if token is None else token.until_s - self._clock.seconds()
            if token is None or not _ENOUGH_S <= left_s <= LIFE_S:
                token = desk.current = await self._made(owner)
            token.users += 1
            return token
        finally:
            desk.lock.release()

    async def _made(self, owner: Owner) -> _Token:
        await self._end_unanswered()
        token = _Token(self._new_token(), self._clock.seconds() + LIFE_S)
        about = f"user {owner.name!r}"
        try:
            await self._client.call(
                _LOGIN, owner.name, token.text, LIFE_S, owner.group, about=about
            )
        except (OneForbiddenError, WrongStateError, OneBadCallError) as error:
            if _TOO_MANY in error.text:
                raise error.with_advice(
                    f"user {owner.name!r} has too many login tokens (oneuser token-delete)"
                ) from None
            raise NoTokensError(str(error)) from None
        except CloudUnreachableError:
            self._unanswered.append((owner, token))
            raise
        return token

    async def _end_unanswered(self) -> None:
        """End tokens that unanswered calls may have left. Raise CloudUnreachableError."""
        left, self._unanswered = self._unanswered, []
        for at, (owner, token) in enumerate(left):
            if token.until_s <= self._clock.seconds():
                continue
            try:
                await self._end(owner, token)
            except OneError:
                # No such token: it was never made, or OpenNebula has not made it yet.
                self._unanswered.append((owner, token))
            except CloudUnreachableError:
                self._unanswered += left[at:]
                raise

    async def _end(self, owner: Owner, token: _Token) -> None:
        await self._client.call(_LOGIN, owner.name, token.text, 0, about=f"user {owner.name!r}")

    async def _give_back(self, owner: Owner, token: _Token) -> None:
        """End the token unless other VMs use it. If that fails, it expires after LIFE_S."""
        token.users -= 1
        if token.users:
            return
        key = (owner.id, owner.group)
        desk = self._desks.get(key)
        if desk is not None and desk.current is token:
            desk.current = None
            if not desk.waiting and not desk.lock.locked:
                del self._desks[key]
        try:
            await self._end(owner, token)
        except (OneError, CloudUnreachableError) as error:
            if isinstance(error, CloudUnreachableError):
                self._unanswered.append((owner, token))
            _log.warn(
                "The token of user {user} can't be ended, and expires in {life} s: {why}",
                user=owner.name,
                life=LIFE_S,
                why=str(error),
            )
