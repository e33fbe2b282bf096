"""A frontend in virtual time: the embedded cloud, the scheduler and its database, one clock."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from merkatd.base.clock import Inline
from merkatd.database import Database, migrations
from merkatd.database.database import transaction
from merkatd.database.ledger import account_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.ledger.entry_store import audit
from merkatd.database.scheduler import journal, period_store
from merkatd.database.scheduler.order_store import Order
from merkatd.database.scheduler.step_store import StepState
from merkatd.embedded.cloud import EmbeddedCloud
from merkatd.embedded.memory_transport import MemoryTransport
from merkatd.embedded.model.settings import HostSize
from merkatd.embedded.model.vm_states import Lcm, OneVmState
from merkatd.hypervisor import EmbeddedHypervisors
from merkatd.market.price import PriceRule
from merkatd.opennebula import Client, OpenNebulaCloud
from merkatd.placement.base.strategy import Pricing
from merkatd.scheduler.base.settings import MarketRules, Rhythm
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.phases.announce import Announcement
from tests.embedded.support import Bench
from tests.migrated import migrated

PASSWORD = "secret"  # noqa: S105 - of a cloud that lives as long as a test
SESSION = f"oneadmin:{PASSWORD}"
START_S = 1_000_000.0


PAPER_MARKET = MarketRules(pricing=Pricing(rule=PriceRule.PAPER, whole_bids=True))
"""Under this rule every bid costs something, also without a rival."""


class Frontend:
    """Everything a daemon has, but for the process."""

    database = Database
    """How transactions are run."""

    def __init__(
        self,
        hosts: int = 3,
        size: HostSize | None = None,
        engine: sa.Engine | None = None,
        **world: Any,
    ) -> None:
        self.placed_again: set[int] = set()
        """VMs that a test has stopped."""
        self.clock = Clock()
        self.clock.advance(START_S)
        self.bench = Bench.__new__(Bench)
        self.bench.clock = self.clock
        cloud = EmbeddedCloud(
            self.clock, np.random.default_rng(7), None, size or HostSize(400, 8192)
        )
        cloud.found(PASSWORD)
        cloud.add_hosts(hosts)
        self.cloud = self.bench.cloud = cloud
        self.transport = self.bench.transport = MemoryTransport(cloud)
        if engine is None:
            self.engine = migrated()
        else:
            self.engine = engine
            migrations.upgrade(engine)
        self.world_settings = world
        self.start_daemon()

    def start_daemon(self) -> None:
        """A daemon, the first or after one was killed: it has the database, nothing else."""
        client = self.client = Client(self.transport, SESSION, self.clock)
        rng = np.random.default_rng(3)
        world = PeriodContext(
            cloud=OpenNebulaCloud(client, self.clock, Inline(), now=self.wall_s),
            hypervisors=EmbeddedHypervisors(client),
            database=self.database(self.engine, Inline(), self.clock, rng),
            clock=self.clock,
            executor=Inline(),
            rng=rng,
            now=self.wall_s,
        )
        self.scheduler = Scheduler(replace(world, **self.world_settings))

    def wall_s(self) -> float:
        """What the daemon's wall clock says; nothing sets it here."""
        return self.clock.seconds()

    def vm(self, cpu_bid: float = 1.0, owner: str = SESSION, **attributes: Any) -> int:
        """A pending VM of two cores and 2 GiB that bids, and burns what it gets."""
        values = {
            "CPU": 1,
            "VCPU": 2,
            "MEMORY": 2048,
            "MERKAT_BID_CPU": cpu_bid,
            "MERKAT_BID_MEMORY": 1,
        } | attributes
        lines = [f'{name}="{value}"' for name, value in values.items() if value is not None]
        embedded = 'EMBEDDED=[WORK="1000000",DEMAND="1",MEMORY_USE="512"]'
        return self.bench.new("\n".join([*lines, embedded]), session=owner)

    def user(self, name: str) -> str:
        """A new user's session."""
        self.bench.ok("one.user.allocate", name, PASSWORD, "core")
        return f"{name}:{PASSWORD}"

    def stopped(self) -> Deferred[None]:
        """Fires when the scheduler has ended."""
        return ensureDeferred(self.scheduler.stop())

    def order(self, what: Order, host: int | None = None) -> bool:
        """As an administrator orders it."""
        new: bool = self.result(ensureDeferred(self.scheduler.order(what, "root", host)))
        return new

    def period(self) -> Announcement:
        """One whole period, now; time passes only where a fault makes it wait."""
        announcement: Announcement = self.result(ensureDeferred(self.scheduler.period()))
        return announcement

    def result(self, running: Deferred[Any]) -> Any:
        """What a deferred fires with, letting time pass in seconds while it waits."""
        done: list[Any] = []
        running.addBoth(done.append)
        for _ in range(7200):
            if done:
                break
            self.clock.advance(1.0)
        assert done, "nothing came of it in two hours"
        if hasattr(done[0], "raiseException"):
            done[0].raiseException()
        return done[0]

    def periods(self, count: int, interval_s: float = 60.0) -> Announcement:
        """So many periods, an interval apart; the last one's announcement."""
        for _ in range(count):
            latest = self.period()
            self.clock.advance(interval_s)
        return latest

    def read(self, work: Any) -> Any:
        """What a function of a connection returns."""
        return transaction(self.engine, work)

    def state(self, vm: int) -> str:
        """The VM's state in the cloud, in OpenNebula's words."""
        state, lcm = self.bench.state(vm)
        return Lcm(lcm).name if state == OneVmState.ACTIVE else OneVmState(state).name

    def host_of(self, vm: int) -> int:
        """The id of the host the cloud has the VM on."""
        return int(self.bench.vm(vm).history[-1].host)

    def limits(self, vm: int) -> Any:
        """What the VM's host enforces."""
        return self.cloud.guests.read([vm])[vm].limits

    def balances(self) -> Mapping[int | None, float]:
        """Credits by owner."""
        rows = self.read(lambda c: account_store.every(c, AccountKind.TENANT))
        return {row.owner: row.balance / 1e6 for row in rows}

    def outstanding(self) -> int:
        """How many steps are neither confirmed nor given up."""
        return len(self.read(journal.outstanding))

    def agree(self) -> None:
        """The cloud and the database say the same, and no credit is lost."""
        assert self.read(audit).sound
        newest = self.read(period_store.newest)
        rows = self.read(lambda c: journal.recent(c, journal.StepFilter(), 100_000))
        deployed = [r.step.vm for r in rows if r.step.kind == "deploy" and r.state == "confirmed"]
        deployed = [vm for vm in deployed if vm not in self.placed_again]
        assert len(deployed) == len(set(deployed)), "a VM was deployed twice"
        for row in rows:
            if row.state in {StepState.PLANNED, StepState.SENT}:
                assert row.step.period == newest.number, f"{row} should have been judged"

    def close(self) -> None:
        """Let go of the database and of time."""
        self.cloud.close()
        self.engine.dispose()


def entries_by_reference(connection: sa.Connection) -> list[str]:
    """The references of all transactions."""
    return [row[0] for row in connection.execute(sa.text("SELECT reference FROM transactions"))]


QUICK = Rhythm(interval_s=60.0, settle_s=5.0, step_limit_s=300.0)
