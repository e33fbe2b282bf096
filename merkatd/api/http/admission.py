"""Admission of calls: limits by user and by address, and delays after wrong passwords.

The answer to a call over a limit is held back, so that its connection carries few calls.

The delay after wrong passwords applies to a user at an address only. An attacker at another
address delays only itself. An attacker behind the same address delays only the users whose names
it tries. The table holds hashes, because an unknown client chooses the names and their length.

# Note [Admission]
A login with a recent answer of OpenNebula is known, without another call to OpenNebula. Its calls
count for the user only, wait only for the user's own limits, and go on while OpenNebula hangs. A
login that was accepted in the last hour is familiar: the daemon asks OpenNebula again, in turns
that unknown clients can't take. All other logins are unknown ("strangers"): they share few turns,
an address at most half of them, and their calls count for the address. Wrong passwords delay the
same user at the same address (`WrongPasswords`).
Example: 200 wrong logins a second from 10.0.0.9 use up that address's calls and four of eight
turns. A user with a session at 10.0.0.9 goes on, and a user who signs in from 10.0.0.8 gets a
turn. This also holds if calls of 10.0.0.9 fill all waiting places: the user needs no place while
a turn is free. Otherwise the user gets the place of the newest call of 10.0.0.9, which is
rejected.
"""

import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from copy import copy
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

from twisted.internet.task import deferLater

from merkatd.api.http.connection_places import KnownAddresses
from merkatd.api.http.settings import ApiSettings
from merkatd.base.rate_limit import RateLimit
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import NotAuthenticatedError, TooManyRequestsError
from merkatd.service.base.identity import Identity, SignIns, is_login
from merkatd.service.base.turns import FairTurns

HELD_S = 0.5
"""The delay of an answer. Meanwhile the server reads only a packet or two from the connection."""


class HeldConnection(NamedTuple):
    """A delayed answer to a call that exceeds a limit."""

    body: bytes


_FREE = 5
"""The wrong passwords without a delay, for typing errors."""
_FIRST_S = 1.0
_LONGEST_S = 60.0
_FORGOTTEN_S = 900.0
_MOST_KEPT = 10_000
_Who = bytes
"""A keyed hash of a user's name and an address."""


class _Tries(NamedTuple):
    wrong: int
    last_s: float

    def wait_s(self) -> float:
        over = self.wrong - _FREE
        return 0.0 if over < 0 else min(_FIRST_S * 2.0 ** min(over, 20), _LONGEST_S)


class WrongPasswords:
    """The delays after wrong passwords, by user and address."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._tries: OrderedDict[_Who, _Tries] = OrderedDict()
        """The wrong passwords by user and address, in the order of their last times."""

    def __len__(self) -> int:
        """Return the number of stored pairs of user and address."""
        return len(self._tries)

    def wait_s(self, user: str, address: str, now_s: float) -> float:
        """Return the seconds until the next password is checked, 0 for at once."""
        tries = self._tries.get(self._who(user, address))
        return 0.0 if tries is None else max(tries.last_s + tries.wait_s() - now_s, 0.0)

    def count(self, user: str, address: str, now_s: float) -> None:
        """Count a wrong password, and drop counts that are too old."""
        self._forget(now_s)
        who = self._who(user, address)
        before = self._tries.pop(who, _Tries(0, now_s))
        self._tries[who] = _Tries(before.wrong + 1, now_s)
        while len(self._tries) > _MOST_KEPT:
            self._tries.popitem(last=False)

    def forgive(self, user: str, address: str) -> None:
        """Drop the count, after the right password."""
        self._tries.pop(self._who(user, address), None)

    def _forget(self, now_s: float) -> None:
        while self._tries:
            oldest = next(iter(self._tries))
            if now_s - self._tries[oldest].last_s <= _FORGOTTEN_S:
                return
            del self._tries[oldest]

    def _who(self, user: str, address: str) -> _Who:
        # The line break separates the parts: no address contains any.
        text = f"{address}\n{user}".encode()
        return blake2b(text, key=self._key, digest_size=16).digest()


_REFUSED_LOGIN = 10.0
"""The calls that a rejected login counts as."""
_WAITING_STRANGERS = 64
"""The most waiting logins of unknown clients, of all ports together."""
REFUSED_EVERY_S = 0.5
"""The answer to a wrong password waits for the next multiple of this time after its call. Otherwise
its time would reveal user names: OpenNebula rejects unknown users sooner than those of a directory.
"""
_STRANGER_BYTES = 1_024.0
"""The bytes of an unknown client's call that count as another call: parsing takes up to 0.1 ms."""
_USER_BYTES = 4_096.0
"""The bytes of a known user's call that count as another call."""
_USERS_PART = 4
"""The divisor for a user's turns: a user has at most 1 / 4 of the turns."""
Result = TypeVar("Result")


class Admission:
    """The limits of calls, and the turns of the calls that are within them."""

    def __init__(self, sign_ins: SignIns, settings: ApiSettings, clock: Any) -> None:
        self._sign_ins = sign_ins
        self._clock = clock
        self._in_flight = settings.in_flight
        self._users = RateLimit(settings.user_calls, settings.burst_s)
        self._addresses = RateLimit(settings.address_calls, settings.burst_s)
        self._wrong = WrongPasswords()
        self.known = KnownAddresses()
        few = settings.unknown_in_flight
        self._strangers = FairTurns(few, per_key=_half(few), waiting=_WAITING_STRANGERS)
        self._familiar = FairTurns(few, per_key=_half(few))
        self.turns = self._new_turns()
        self.way = "XML-RPC"
        """The name of the interface, for records."""

    def apart(self, way: str = "XML-RPC") -> "Admission":
        """Return the same limits with separate turns, so that a port can't fill another's turns.

        `way` is the name of the other port's interface, for records.
        """
        other = copy(self)
        other.turns = self._new_turns()
        other.way = way
        return other

    def wait_s(self, address: str, size: int = 0) -> float:
        """Count a call of this address; return the seconds until it is allowed, 0 for now."""
        calls = self._addresses.part(1.0 + size / _STRANGER_BYTES)
        return self._addresses.take(address, self._clock.seconds(), calls)

    def heed(self, address: str, wait_s: float, *, known: bool, size: int = 0) -> None:
        """Raise RequestError for a call that came too early, unless its user is known.

        A known user's call counts for that user, and not for the address.
        """
        if known and not wait_s:
            calls = self._addresses.part(1.0 + size / _STRANGER_BYTES)
            self._addresses.fine(address, self._clock.seconds(), -calls)
        elif not known:
            _allow(wait_s, f"calls from address {address}")

    def knows(self, session: str) -> bool:
        """Return whether OpenNebula accepted this login in the last hour."""
        return self._sign_ins.is_good(session) or self._sign_ins.is_familiar(session)

    def count_more(self, user: int, calls: float) -> None:
        """Count a call of this user that is expensive as so many further calls."""
        self._users.fine(user, self._clock.seconds(), calls)

    async def admitted(
        self,
        session: str,
        address: str,
        work: Callable[[Caller], Awaitable[Result]],
        size: int = 0,
    ) -> Result:
        """Return the result of the work for this login's user, in its turn. Raise RequestError."""
        identity = await self._identified(session, address)
        now_s = self._clock.seconds()
        self.known.note(address, identity.uid, now_s)
        calls = self._users.part(1.0 + size / _USER_BYTES)
        wait_s = self._users.take(identity.uid, now_s, calls)
        if wait_s:
            # A flood of calls counts for its address too, also from a known user.
            self._addresses.fine(address, now_s, 1.0)
        _allow(wait_s, f"calls of user {identity.uid}")
        caller = Caller(identity, session, origin=f"{self.way} from {address}")
        return await self.turns.run(identity.uid, lambda: work(caller))

    async def _identified(self, session: str, address: str) -> Identity:
        if self._sign_ins.is_known(session):
            return await self._sign_ins.identify(session)
        began_s = self._clock.seconds()
        if not is_login(session):
            # Names are not counted here: an unknown client may send any text as a name.
            self._addresses.fine(address, began_s, _REFUSED_LOGIN)
            await self._until_a_refusal_is_due(began_s)
            return await self._sign_ins.identify(session)
        user = session.partition(":")[0]
        familiar = self._sign_ins.is_familiar(session)

        async def checked() -> Identity:
            # In the turn: passwords that arrived together must wait for each other's results.
            if not familiar:
                self._allow_password(user, address)
            try:
                return await self._sign_ins.identify(session)
            except NotAuthenticatedError:
                now_s = self._clock.seconds()
                self._addresses.fine(address, now_s, _REFUSED_LOGIN)
                self._wrong.count(user, address, now_s)
                raise

        if not familiar:
            self._allow_password(user, address)
        lane, key = (self._familiar, user) if familiar else (self._strangers, address)
        try:
            identity = await lane.run(key, checked)
        except NotAuthenticatedError:
            await self._until_a_refusal_is_due(began_s)
            raise
        self._wrong.forgive(user, address)
        return identity

    def _allow_password(self, user: str, address: str) -> None:
        """Raise TooManyRequestsError while the user has to wait after wrong passwords."""
        wait_s = self._wrong.wait_s(user, address, self._clock.seconds())
        _allow(wait_s, "wrong passwords of this user from this address")

    async def _until_a_refusal_is_due(self, began_s: float) -> None:
        """Wait for the time of the next rejection, without holding a turn."""
        passed_s = self._clock.seconds() - began_s
        wait_s = REFUSED_EVERY_S * (passed_s // REFUSED_EVERY_S + 1) - passed_s
        await deferLater(self._clock, wait_s)

    def _new_turns(self) -> FairTurns:
        return FairTurns(self._in_flight, per_key=max(self._in_flight // _USERS_PART, 1))


def _half(number: int) -> int:
    return max(number // 2, 1)


def _allow(wait_s: float, what: str) -> None:
    if wait_s > 0:
        raise TooManyRequestsError(f"Too many {what}: try again in {wait_s:.2g} s.")
