"""Daemons that share one cloud and one database; each can have a clock of its own."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from twisted.internet.defer import Deferred, ensureDeferred

from merkatd.base.backoff import Backoff
from merkatd.base.clock import Inline
from merkatd.database import Database
from merkatd.database.scheduler import period_store
from merkatd.opennebula import Client, OpenNebulaCloud
from merkatd.opennebula.current_state import server_leads
from merkatd.opennebula.rpc.transport import LeaderOnlyTransport
from merkatd.scheduler.leadership import Leadership, lease_s_of
from merkatd.scheduler.period import Scheduler
from tests.scheduler.frontend import SESSION, START_S, Frontend

INTERVAL_S = 60.0


TWO_ATTEMPTS = Backoff(first_s=0.05, longest_s=2.0, retries=1)


class Slow:
    """A daemon's own clock: it can be off, fast, slow or stopped."""

    def __init__(self, frontend: Frontend, offset_s: float, rate: float) -> None:
        self._clock = frontend.clock
        self._offset_s, self._rate = offset_s, rate
        self._late: list[Callable[[], object]] = []
        self.stopped = False

    def seconds(self) -> float:
        """Return the time by this clock."""
        return START_S + self._offset_s + (self._clock.seconds() - START_S) * self._rate

    def callLater(self, delay: float, call: Callable[..., object], *arguments: object) -> Any:  # noqa: N802
        """Call it after a delay by this clock."""

        def due() -> None:
            if self.stopped:
                self._late.append(lambda: call(*arguments))
            else:
                call(*arguments)

        return self._clock.callLater(delay / self._rate, due)

    def until_resumed(self) -> Deferred[None]:
        """Return a deferred that fires after the stop; until then no call or answer passes."""
        waiting: Deferred[None] = Deferred()
        self._late.append(lambda: waiting.callback(None))
        return waiting

    def resume(self) -> None:
        """End the stop, and make all calls that became due meanwhile."""
        self.stopped = False
        late, self._late = self._late, []
        for call in late:
            call()


class Daemon:
    """A scheduler with its own lease on the frontend's database and cloud."""

    def __init__(
        self,
        frontend: Frontend,
        name: str,
        offset_s: float = 0.0,
        rate: float = 1.0,
        engine: sa.Engine | None = None,
        revision: str | None = None,
    ) -> None:
        self.clock = Slow(frontend, offset_s, rate)
        self.calls: list[tuple[float, str]] = []
        self._frontend = frontend
        client = Client(LeaderOnlyTransport(self, self._certain), SESSION, self.clock)
        rng = np.random.default_rng(len(name))
        engine = frontend.engine if engine is None else engine
        database = Database(engine, Inline(), self.clock, rng, TWO_ATTEMPTS)
        world = replace(
            frontend.scheduler.world,
            cloud=OpenNebulaCloud(client, self.clock, Inline()),
            database=database,
            clock=self.clock,
            now=self.clock.seconds,
            in_flight={},
        )
        self.leads = True
        self.leading = Leadership(
            database,
            self.clock,
            name,
            lease_s_of(INTERVAL_S),
            self._leads(client),
            revision=revision,
        )
        self.scheduler = Scheduler(world, self.leading)
        self.acted: list[int] = []
        self.scheduler.listen(lambda announcement: self.acted.append(announcement.period))
        self.leading.start()
        self.scheduler.start()

    def _leads(self, client: Client) -> Callable[[], Any]:
        async def answer() -> bool:
            return await server_leads(client) and self.leads

        return answer

    async def _certain(self) -> None:
        await self.leading.certain()

    async def call(self, method: str, *arguments: Any) -> Any:
        """Pass the call on, and record each call that changes something."""
        if self.clock.stopped:
            await self.clock.until_resumed()
        if method.startswith(("one.vm.deploy", "one.vm.migrate", "embedded.limits.set")):
            self.calls.append((self._frontend.clock.seconds(), method))
        answer = await self._frontend.transport.call(method, *arguments)
        if self.clock.stopped:
            await self.clock.until_resumed()
        return answer

    def kill(self) -> None:
        """Stop the daemon without releasing its lease."""
        self.clock.stopped = True

    def end(self) -> None:
        """Stop the daemon in order."""
        self._frontend.result(ensureDeferred(self.scheduler.stop()))
        self._frontend.result(ensureDeferred(self.leading.stop()))


def pass_(frontend: Frontend, seconds: float) -> None:
    """Let time pass."""
    frontend.clock.pump([1.0] * round(seconds))


def periods_of(connection: sa.Connection) -> list[int]:
    """Return the numbers of all periods that acted."""
    return sorted(row.number for row in period_store.recent(connection, 1000) if row.acted_s)
