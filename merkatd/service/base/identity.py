"""Who asks, as OpenNebula says, and what they may do."""

import hmac
import re
import secrets
import xmlrpc.client
from collections import OrderedDict
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from twisted.internet.defer import Deferred

from merkatd.base.deferreds import SharedResult, Time, within
from merkatd.opennebula.rpc.errors import (
    OneAuthenticationError,
    OneError,
    OneForbiddenError,
    OneMissingError,
    value_of,
)
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
from merkatd.service.base.errors import Code, RequestError

ADMINISTRATOR = 0
"""The id of oneadmin, and of the group oneadmin."""
LONGEST_SESSION = 1024
_MOST_KEPT = 10_000
_ASKING_S = 10.0
_FAMILIAR_S = 3_600.0
_NOBODY = "User couldn't be authenticated, aborting."
_CARRIED = re.compile(r"[\t\n\r\x20-\ud7ff\ue000-\ufffd]*")
"""What a call can carry: OpenNebula's server takes no other characters, so they are in no login."""


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
        self._refused: dict[bytes, _Word] = {}
        """Apart from the good ones, so that wrong logins push none of these out."""
        self._good_s: OrderedDict[bytes, float] = OrderedDict()
        """When a login was good for the last time."""
        self._asking: dict[bytes, SharedResult[_Word]] = {}

    async def who(self, session: str) -> Identity:
        """The user whose login this is. Raises Refusal."""
        if not is_login(session):
            raise RequestError(Code.AUTHENTICATION, _NOBODY)
        name = self._name(session)
        word = self._word_of(name) or await self._asked(name, session)
        if word.identity is None:
            raise RequestError(Code.AUTHENTICATION, _NOBODY)
        return word.identity

    def is_known(self, session: str) -> bool:
        """Return whether `who` answers without asking OpenNebula."""
        return is_login(session) and self._word_of(self._name(session)) is not None

    def is_good(self, session: str) -> bool:
        """Return whether `who` returns a user without asking OpenNebula."""
        word = self._word_of(self._name(session)) if is_login(session) else None
        return word is not None and word.identity is not None

    def is_familiar(self, session: str) -> bool:
        """Return whether the login was good within the last hour, and never refused since."""
        if not is_login(session):
            return False
        good_s = self._good_s.get(self._name(session))
        return good_s is not None and self._clock.seconds() - good_s <= _FAMILIAR_S

    def _name(self, session: str) -> bytes:
        return blake2b(session.encode(), key=self._key, digest_size=32).digest()

    def _word_of(self, name: bytes) -> _Word | None:
        """Return OpenNebula's word where it still counts."""
        word = self._words.get(name) or self._refused.get(name)
        return word if word is not None and word.until_s > self._clock.seconds() else None

    async def ask(self, session: str, method: str, *arguments: Any) -> Any:
        """What OpenNebula answers to a call of this user's. Raises OneError, UnreachableError."""
        call: Coroutine[Deferred[Any], Any, Any] = self._transport.call(method, session, *arguments)
        try:
            return value_of(await within(_ASKING_S, self._clock, call), method, "")
        except (OSError, xmlrpc.client.Error, ValueError) as error:
            # Whatever it was, its words may hold what was sent.
            raise CloudUnreachableError(
                f"OpenNebula gave no answer ({type(error).__name__})"
            ) from None

    async def _asked(self, name: bytes, session: str) -> _Word:
        """Those who come with the same login at once wait for one answer."""
        asking = self._asking.get(name)
        if asking is None:
            asking = self._asking[name] = SharedResult(self._fresh(name, session))
            if asking.over:
                del self._asking[name]
        return await asking.result()

    async def _fresh(self, name: bytes, session: str) -> _Word:
        try:
            word = await self._word(session)
        finally:
            self._asking.pop(name, None)
        self._keep(name, word)
        return word

    def _keep(self, name: bytes, word: _Word) -> None:
        self._good_s.pop(name, None)
        self._words.pop(name, None)
        self._refused.pop(name, None)
        now_s = self._clock.seconds()
        if word.identity is None:
            self._refused = _with_room(self._refused, now_s)
            self._refused[name] = word
            return
        self._words = _with_room(self._words, now_s)
        self._words[name] = word
        self._good_s[name] = now_s
        while len(self._good_s) > _MOST_KEPT:
            self._good_s.popitem(last=False)

    async def _word(self, session: str) -> _Word:
        try:
            user = await self.ask(session, "one.user.info", -1)
        except OneAuthenticationError:
            return _Word(None, self._clock.seconds() + self._refusal_kept_s)
        except OneError as error:
            raise RequestError(Code.AUTHENTICATION, error.text) from None
        return _Word(_identity(user, session), self._clock.seconds() + self._kept_s)


def is_login(session: str) -> bool:
    """Return whether this can be a user's login; if not, `Logins.who` refuses it at once."""
    fits = 3 <= len(session) <= LONGEST_SESSION and ":" in session
    return fits and _CARRIED.fullmatch(session) is not None


def _with_room(words: dict[bytes, _Word], now_s: float) -> dict[bytes, _Word]:
    """Return the words with room for one more: those that are over go, then all."""
    if len(words) < _MOST_KEPT:
        return words
    kept = {name: word for name, word in words.items() if word.until_s > now_s}
    return kept if len(kept) < _MOST_KEPT else {}


def _identity(user: Any, session: str) -> Identity:
    try:
        found = only_child(str(user), "USER")
        parts = children(found)
        own = whole(parts, "GID")
        groups = {own, *ids(parts["GROUPS"].iterchildren("ID"))} if "GROUPS" in parts else {own}
        narrowed = _group_of_token(found, session.partition(":")[2])
        if narrowed is not None:
            own, groups = narrowed, groups & {narrowed}
        return Identity(whole(parts, "ID"), text(parts, "NAME"), frozenset(groups), own)
    except (BrokenError, UnreadableError) as error:
        raise CloudUnreachableError(
            f"what OpenNebula says of a user can't be read: {error}"
        ) from None


def _group_of_token(user: Element, password: str) -> int | None:
    """Return the only group that a login token stands for; None where it is a whole login.

    OpenNebula narrows the rights of such a login in its own calls, but names all groups here.
    """
    for row in user.iterchildren("LOGIN_TOKEN"):
        token = children(row)
        if hmac.compare_digest(optional_text(token, "TOKEN").encode(), password.encode()):
            group = whole(token, "EGID")
            return None if group < 0 else group
    return None


USE = "USE"
MANAGE = "MANAGE"


async def need_vm(
    identity: Identity, logins: Logins, session: str, vm: int, owner: int, right: str
) -> None:
    """Raises Refusal where the user may not do this to the VM.

    Owners and administrators may do everything. Of others OpenNebula is asked, in their own
    name, to show them the VM: who may not even see it, has no right to it; who may change it
    is said by its permissions, by group and for all.
    """
    if identity.is_admin or identity.uid == owner:
        return
    denied = RequestError(
        Code.AUTHORIZATION,
        f"User [{identity.uid}] : Not authorized to perform {right} VM [{vm}].",
        vm,
    )
    try:
        shown = await logins.ask(session, "one.vm.info", vm)
        permitted = right == USE or _may_manage(identity, children(only_child(str(shown), "VM")))
    except OneForbiddenError:
        raise denied from None
    except OneMissingError:
        raise no_vm(vm) from None
    except (OneError, BrokenError, UnreadableError):
        raise denied from None
    if not permitted:
        raise denied


def _may_manage(identity: Identity, vm: Mapping[str, Element]) -> bool:
    if "PERMISSIONS" not in vm:
        return False
    bits = children(vm["PERMISSIONS"])
    if whole(vm, "UID") == identity.uid:
        return bool(whole(bits, "OWNER_M"))
    by_group = whole(vm, "GID") in identity.groups and whole(bits, "GROUP_M")
    return bool(by_group or whole(bits, "OTHER_M"))


def need_tenant(identity: Identity, tenant: int) -> None:
    """Raises Refusal where the user may not see this tenant's money."""
    if not identity.is_admin and identity.uid != tenant:
        raise RequestError(
            Code.AUTHORIZATION,
            f"User [{identity.uid}] : Not authorized to perform USE USER [{tenant}].",
            tenant,
        )


def need_admin(identity: Identity, method: str) -> None:
    """Raises Refusal where the user is no administrator."""
    if not identity.is_admin:
        raise RequestError(
            Code.AUTHORIZATION, f"User [{identity.uid}] : Not authorized to perform {method}."
        )


def no_vm(vm: int) -> RequestError:
    """There is no such VM, as far as the last period saw."""
    return RequestError(Code.NO_EXISTS, f"Error getting virtual machine [{vm}].", vm)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and with which login."""

    identity: Identity
    session: str

    def __repr__(self) -> str:
        return f"Caller({self.identity.name!r})"
