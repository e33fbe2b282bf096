"""Leadership: at most one of the daemons on one database, and in one zone, acts.

The holder of the lease in the database acts (`merkatd.database.scheduler.lease_store`).

# Note [The lease]

The leader raises the lease's counter every few seconds and with every write. The other daemons
watch the counter. One of them takes the lease once the counter has not changed for `lease_s`, or at
once if the leader gave it back.

An operating system can stop a daemon for minutes between two of its instructions. So the leader
sends nothing unless it has written the counter recently; otherwise `certain` writes it first.
"Recently" means nine tenths of `lease_s`: clocks of machines may show different times, and one may
run up to a tenth faster than another.

Example: with periods of 60 s, `lease_s` is 90 s. Each daemon checks the lease every 90 / 18 = 5 s.
A leader that wrote the counter at 0 s acts without a further write until 81 s. If it dies, another
daemon saw its last count by 5 s and takes the lease by 100 s, within two periods.

A newer version migrates the schema when it starts. A daemon of an older version then stops acting,
because it does not know the new schema.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import sqlalchemy as sa
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import Logger

from merkatd.database import migrations
from merkatd.database.base.transactions import Transactions
from merkatd.database.scheduler import lease_store
from merkatd.database.scheduler.lease_store import Lease, LeaseLostError
from merkatd.scheduler.base.outages import Outage
from merkatd.scheduler.base.ports import CloudUnreachableError

Result = TypeVar("Result")

LEAST_LEASE_S = 2.0
"""The shortest lease; any brief stall of a machine would lose a shorter one."""

_LOOKS = 18
"""The number of checks of the lease in the time after which it is lost."""
_SURELY = 0.9

_log = Logger()


def lease_s_of(interval_s: float) -> float:
    """Return the lease time, so that another daemon replaces a dead leader within two periods."""
    return max(1.5 * interval_s, LEAST_LEASE_S)


async def _always() -> bool:
    return True


class Leadership:
    """The leadership of this daemon, and the transactions of the leader."""

    def __init__(
        self,
        database: Transactions,
        clock: Any,
        holder: str,
        lease_s: float,
        leads: Callable[[], Awaitable[bool]] = _always,
        now: Callable[[], float] | None = None,
        revision: str | None = None,
    ) -> None:
        """`leads` returns whether our server leads its zone; `now` must never go back.

        `revision` is the schema revision of this version; None disables the check.
        """
        self._database = database
        self._clock = clock
        self._holder = holder
        self._sure_s = self._wait_s = lease_s
        self._leads = leads
        self._now = now or clock.seconds
        self._revision = revision
        self._lease_away = Outage("The database with the lease")
        self._token: int | None = None
        self._surely_until_s = 0.0
        self._seen: Lease | None = None
        self._seen_s = self._now()
        self._call: Any = None
        self._in_hand: Deferred[None] | None = None
        self._ended = False
        self._when_taken: Callable[[], None] | None = None
        self._when_lost: list[Callable[[], None]] = []
        self.why_not = "the lease on the database is not taken yet"
        """Why this daemon does not act, if it does not."""

    @property
    def acting(self) -> bool:
        """Whether this daemon has the lease, as far as it knows."""
        return self._token is not None

    @property
    def surely_acting(self) -> bool:
        """Whether no other daemon can have the lease yet; safe on any thread."""
        return self._token is not None and self._now() < self._surely_until_s

    def adopt(self, lease_s: float) -> None:
        """Change the lease time. Other daemons may use any earlier value and never learn this.

        So until this daemon restarts, its own lease lasts for the shortest of all values. It takes
        another daemon's lease only after the longest one.
        """
        self._sure_s, self._wait_s = min(self._sure_s, lease_s), max(self._wait_s, lease_s)
        self._surely_until_s = min(self._surely_until_s, self._now() + _SURELY * self._sure_s)

    def when_taken(self, call: Callable[[], None]) -> None:
        """Call this function each time this daemon takes the lease."""
        self._when_taken = call

    def when_lost(self, call: Callable[[], None]) -> None:
        """Call this function each time this daemon loses the lease."""
        self._when_lost.append(call)

    def start(self) -> None:
        """Check the lease now and at regular intervals."""
        self._in_hand = ensureDeferred(self._look_and_wait())

    async def stop(self) -> None:
        """Give the lease back, so that another daemon need not wait for it."""
        self._ended = True
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if self._in_hand is not None:
            await self._in_hand
        await self._give_back("this daemon ends")

    async def _look_and_wait(self) -> None:
        try:
            await self.look()
            self._lease_away.answered()
        except CloudUnreachableError:
            pass  # the period logs this
        except Exception as error:  # noqa: BLE001 - a database that fails now may answer later
            self._lease_away.failed(str(error))
        self._in_hand = None
        if not self._ended:
            self._call = self._clock.callLater(self._sure_s / _LOOKS, self._again)

    def _again(self) -> None:
        self._call = None
        self.start()

    async def look(self) -> None:
        """Renew the lease if this daemon has it; take it if its holder is gone."""
        if self._token is not None:
            try:
                await self._renew(self._token)
            except LeaseLostError as error:
                self._lost(error)
            return
        lease, unknown = await self._database.read(
            lambda c: (lease_store.read_lease(c), self._unknown(c))
        )
        if lease != self._seen:
            self._seen, self._seen_s = lease, self._now()
        if unknown:
            self.why_not = unknown
            return
        if lease is not None and not self._free(lease):
            self.why_not = f"daemon {lease.holder} has the lease on this database"
            return
        if await self._our_server_leads():
            await self._take(lease)

    def _free(self, lease: Lease) -> bool:
        if lease.holder in {lease_store.NO_HOLDER, self._holder}:
            return True
        return self._now() - self._seen_s >= self._wait_s

    async def _take(self, lease: Lease | None) -> None:
        begin_s = self._now()
        token = await self._database.run(lambda c: lease_store.take_lease(c, self._holder, lease))
        if token is not None:
            self._token = token
            self._surely_until_s = begin_s + _SURELY * self._sure_s
            _log.info("This daemon acts from now on (lease {token})", token=token)
            if self._when_taken is not None:
                self._when_taken()

    async def may_begin(self) -> bool:
        """Return whether a period may begin: our server leads its zone, and the lease is ours.

        Raise CloudUnreachableError if the server does not answer. Another daemon may reach it, so
        the lease is then given back too.
        """
        try:
            leads = await self._our_server_leads()
        except CloudUnreachableError:
            await self._give_back("the server can't be reached")
            raise
        if not leads:
            await self._give_back(self.why_not)
            return False
        await self.look()
        return self.acting

    async def _our_server_leads(self) -> bool:
        if await self._leads():
            return True
        self.why_not = "another server leads the zone"
        return False

    async def certain(self, token: int | None = None) -> None:
        """Return only if the lease is certainly ours; otherwise raise LeaseLostError.

        With `token`, the lease must not have been lost and taken again since that token.
        """
        if self._token is None or token not in {None, self._token}:
            raise LeaseLostError("this daemon has no lease")
        if self._now() >= self._surely_until_s:
            await self._renew(self._token)

    def fenced(self, database: Transactions) -> "LeaderTransactions":
        """Return transactions on this database that fail once the present lease is lost.

        Raise LeaseLostError if there is no lease now.
        """
        if self._token is None:
            raise LeaseLostError("this daemon has no lease")
        return LeaderTransactions(database, self, self._token)

    async def _renew(self, token: int) -> None:
        def known(connection: sa.Connection) -> None:
            unknown = self._unknown(connection)
            if unknown:
                raise LeaseLostError(unknown)

        await self.write(self._database, token, known)

    def _unknown(self, connection: sa.Connection) -> str:
        """Return why this version can't work with the present schema; empty if it can."""
        if self._revision is None:
            return ""
        present = migrations.revision_of(connection)
        if present == self._revision:
            return ""
        return (
            f"another version of Merkat brought the database from revision {self._revision} to"
            f" {present}: install that version here too, and restart this daemon"
        )

    async def write(
        self, database: Transactions, token: int, work: Callable[[sa.Connection], Result]
    ) -> Result:
        """Run one transaction under the lease of this token. Raise LeaseLostError if it is lost."""
        begin_s = self._now()

        def fenced(connection: sa.Connection) -> Result:
            lease_store.renew_lease(connection, token)
            return work(connection)

        try:
            result = await database.run(fenced)
        except LeaseLostError as error:
            if token == self._token:
                self._lost(error)
            raise
        if token == self._token:
            self._surely_until_s = max(self._surely_until_s, begin_s + _SURELY * self._sure_s)
        return result

    def _lost(self, error: LeaseLostError) -> None:
        if self._token is not None:
            _log.warn("This daemon stops acting: {error}", error=str(error))
        self._seen, self._seen_s = None, self._now()
        self.why_not = str(error)
        self._let_go()

    async def _give_back(self, why: str) -> None:
        token = self._token
        self.why_not = why
        self._let_go()
        if token is not None:
            _log.info("This daemon gives the lease back: {why}", why=why)
            await self._database.run(lambda c: lease_store.give_back(c, token))

    def _let_go(self) -> None:
        held, self._token = self._token is not None, None
        for call in self._when_lost if held else ():
            call()


class LeaderTransactions:
    """Transactions that succeed only while one lease is held."""

    def __init__(self, database: Transactions, leading: Leadership, token: int) -> None:
        self._database = database
        self._leading = leading
        self._token = token

    async def certain(self) -> None:
        """Return only if this lease is certainly held; otherwise raise LeaseLostError."""
        await self._leading.certain(self._token)

    async def run(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Return the result of `work`, committed together with the renewal of the lease."""
        return await self._leading.write(self._database, self._token, work)

    async def read(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Return the result of `work`, with or without the lease."""
        return await self._database.read(work)
