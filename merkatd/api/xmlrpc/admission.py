"""Who may come in: calls are counted by user once the user is known, and by address before.

# Note [Admission]
A login that OpenNebula answered for lately is known without asking: its calls count for the user
alone, wait for nothing but the user's own limits, and come first while OpenNebula hangs. A login
that was good within the last hour is familiar: OpenNebula is asked again, in turns that
strangers can't take. All others are strangers: they share few turns, one address at most half
of them, and their calls count for the address. Wrong passwords make the same user wait at the
same address (`wrong`).
Example: 200 wrong logins a second from 10.0.0.9 use up that address's calls and four of eight
turns. A user with a session at 10.0.0.9 goes on; a user who signs in from 10.0.0.8 gets a turn.
So it is where 10.0.0.9 has all places of those that wait: the user takes none while a turn is
free, and else the place of the newest of 10.0.0.9, which is refused.
"""

from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any, TypeVar

from twisted.internet.task import deferLater

from merkatd.api.xmlrpc.identity import Identity, Logins, is_login
from merkatd.api.xmlrpc.known import KnownAddresses
from merkatd.api.xmlrpc.rates import Rates
from merkatd.api.xmlrpc.settings import Settings
from merkatd.api.xmlrpc.table import Caller
from merkatd.api.xmlrpc.turns import FairTurns
from merkatd.api.xmlrpc.words import Code, Refusal, TooManyRefusal
from merkatd.api.xmlrpc.wrong import WrongPasswords

_REFUSED_LOGIN = 10.0
"""So many calls a refused login counts as."""
_WAITING_STRANGERS = 64
"""So many wait, at both doors together."""
REFUSED_EVERY_S = 0.5
"""The answer to a wrong password waits for the next multiple of this time, counted from its call:
OpenNebula refuses an unknown user sooner than one whom a directory knows."""
_STRANGER_BYTES = 1_024.0
"""So many bytes of a stranger's call count as another call: to parse them takes up to 0.1 ms,"""
_USER_BYTES = 4_096.0
"""and so many of a user's."""
_USERS_PART = 4
"""A user has at most one turn in so many."""

Result = TypeVar("Result")


class Admission:
    """Lets calls in."""

    def __init__(self, logins: Logins, settings: Settings, clock: Any) -> None:
        self._logins = logins
        self._clock = clock
        self._in_flight = settings.in_flight
        self._users = Rates(settings.user_calls, settings.burst_s)
        self._addresses = Rates(settings.address_calls, settings.burst_s)
        self._wrong = WrongPasswords()
        self.known = KnownAddresses()
        few = settings.unknown_in_flight
        self._strangers = FairTurns(few, per_key=_half(few), waiting=_WAITING_STRANGERS)
        self._familiar = FairTurns(few, per_key=_half(few))
        self.turns = self._new_turns()

    def apart(self) -> "Admission":
        """Return the same limits with turns of their own: one door's work never fills another."""
        other = copy(self)
        other.turns = self._new_turns()
        return other

    def wait_s(self, address: str, size: int = 0) -> float:
        """Count a call from this address; return the seconds it is too early by, 0 for none."""
        calls = self._addresses.part(1.0 + size / _STRANGER_BYTES)
        return self._addresses.take(address, self._clock.seconds(), calls)

    def heed(self, address: str, wait_s: float, *, known: bool, size: int = 0) -> None:
        """Raise Refusal for a call that came too early, unless it is from a known user.

        A known user's call counts for that user, and not for the address.
        """
        if known and not wait_s:
            calls = self._addresses.part(1.0 + size / _STRANGER_BYTES)
            self._addresses.fine(address, self._clock.seconds(), -calls)
        elif not known:
            _allow(wait_s, f"calls from address {address}")

    def knows(self, session: str) -> bool:
        """Return whether OpenNebula said within the last hour that this login is good."""
        return self._logins.is_good(session) or self._logins.is_familiar(session)

    async def admitted(
        self,
        session: str,
        address: str,
        work: Callable[[Caller], Awaitable[Result]],
        size: int = 0,
    ) -> Result:
        """Return what the work returns for this login's user, in its turn. Raises Refusal."""
        identity = await self._identified(session, address)
        now_s = self._clock.seconds()
        self.known.note(address, identity.uid, now_s)
        calls = self._users.part(1.0 + size / _USER_BYTES)
        wait_s = self._users.take(identity.uid, now_s, calls)
        if wait_s:
            # A flood counts for its address too, whoever sends it.
            self._addresses.fine(address, now_s, 1.0)
        _allow(wait_s, f"calls of user {identity.uid}")
        return await self.turns.run(identity.uid, lambda: work(Caller(identity, session)))

    async def _identified(self, session: str, address: str) -> Identity:
        if self._logins.is_known(session):
            return await self._logins.who(session)
        began_s = self._clock.seconds()
        if not is_login(session):
            # No name is counted: a stranger may send any text as one.
            self._addresses.fine(address, began_s, _REFUSED_LOGIN)
            await self._until_a_refusal_is_due(began_s)
            return await self._logins.who(session)
        user = session.partition(":")[0]
        if self._logins.is_familiar(session):
            lane, key = self._familiar, user
        else:
            wait_s = self._wrong.wait_s(user, address, self._clock.seconds())
            _allow(wait_s, "wrong passwords of this user from this address")
            lane, key = self._strangers, address
        try:
            identity = await lane.run(key, lambda: self._logins.who(session))
        except Refusal as refusal:
            if refusal.code is Code.AUTHENTICATION:
                now_s = self._clock.seconds()
                self._addresses.fine(address, now_s, _REFUSED_LOGIN)
                self._wrong.count(user, address, now_s)
                await self._until_a_refusal_is_due(began_s)
            raise
        self._wrong.forgive(user, address)
        return identity

    async def _until_a_refusal_is_due(self, began_s: float) -> None:
        """Wait, holding no turn meanwhile."""
        passed_s = self._clock.seconds() - began_s
        wait_s = REFUSED_EVERY_S * (passed_s // REFUSED_EVERY_S + 1) - passed_s
        await deferLater(self._clock, wait_s)

    def _new_turns(self) -> FairTurns:
        return FairTurns(self._in_flight, per_key=max(self._in_flight // _USERS_PART, 1))


def _half(number: int) -> int:
    return max(number // 2, 1)


def _allow(wait_s: float, what: str) -> None:
    if wait_s > 0:
        raise TooManyRefusal(f"Too many {what}: try again in {wait_s:.2g} s.")
