"""A frontend in virtual time: the embedded cloud, the scheduler and its database, one clock."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from merkatd.base.clock import Inline
from merkatd.currency import micro
from merkatd.database import Database, migrations
from merkatd.database.database import transaction
from merkatd.database.ledger import account_store, charge_store
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
from merkatd.ledger import Ledger
from merkatd.market.price import PriceRule
from merkatd.opennebula import Client, OpenNebulaCloud
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules, Rhythm
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.phases.announce import Announcement
from tests.embedded.support import Bench
from tests.migrated import content_of, load, migrated

PASSWORD = "secret"  # noqa: S105 - of a cloud that lives for one test
SESSION = f"oneadmin:{PASSWORD}"
START_S = 1_000_000.0
CREDITS = 100_000.0


PAPER_MARKET = MarketRules(pricing=Pricing(rule=PriceRule.PAPER, whole_bids=True))
"""Under this rule every bid has a price, even without a competing bid."""


_ACCOUNTS: dict[str, bytes] = {}
"""Databases with the accounts of the first tenants."""


class Frontend:
    """Everything that a daemon has, except the process."""

    database = Database
    """The class that runs the transactions."""

    def __init__(
        self,
        hosts: int = 3,
        size: HostSize | None = None,
        engine: sa.Engine | None = None,
        **world: Any,
    ) -> None:
        self.placed_again: set[int] = set()
        """VMs that a test has stopped and that may be deployed again."""
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
        self._shared = engine is not None
        if engine is None:
            self.engine = migrated()
        else:
            self.engine = engine
            migrations.upgrade(engine)
        self.world_settings = world
        self.start_daemon()

    def start_daemon(self) -> None:
        """Start a daemon that has only the database, as the first one or after a kill."""
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
        """Return the daemon's wall-clock time; no test changes it here."""
        return self.clock.seconds()

    def vm(self, cpu_bid: float = 1.0, owner: str = SESSION, **attributes: Any) -> int:
        """Create a pending VM of two cores and 2 GiB that bids and uses all it gets."""
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
        """Create a user and return a session for it."""
        self.bench.ok("one.user.allocate", name, PASSWORD, "core")
        return f"{name}:{PASSWORD}"

    def tenant(self, name: str, credits_: float = CREDITS) -> int:
        """Create a user with an account; return the user's id."""
        self.user(name)
        owner = max(self.cloud.world.users.rows)
        world = self.scheduler.world
        ledger = Ledger(world.database, self.clock.seconds, world.money)
        self.result(ensureDeferred(ledger.meet(owner, name)))
        self.result(ensureDeferred(ledger.grant(owner, micro(credits_), "root")))
        return owner

    def first_tenants(self, names: Sequence[str], credits_: float = CREDITS) -> list[int]:
        """Create the first users with accounts; return their ids.

        The accounts are those of an earlier frontend with the same ones, if there was one.
        """
        key = repr((names, credits_, self.scheduler.world.money))
        if self._shared or key not in _ACCOUNTS:
            owners = [self.tenant(name, credits_) for name in names]
            if not self._shared:
                _ACCOUNTS[key] = content_of(self.engine)
            return owners
        for name in names:
            self.user(name)
        load(self.engine, _ACCOUNTS[key])
        return list(self.cloud.world.users.rows)[-len(names) :]

    def measure_hourly(self) -> None:
        """Let hosts take a sample once an hour: a test of days would take thousands."""
        world = self.cloud.world
        world.settings = replace(world.settings, monitor_interval_s=3600.0)

    def stopped(self) -> Deferred[None]:
        """Return a deferred that fires when the scheduler has stopped."""
        return ensureDeferred(self.scheduler.stop())

    def order(self, what: Order, host: int | None = None) -> bool:
        """Give the scheduler an order as an administrator."""
        new: bool = self.result(ensureDeferred(self.scheduler.order(what, "root", host)))
        return new

    def period(self) -> Announcement:
        """Run one whole period now; time passes only when a fault delays it."""
        announcement: Announcement = self.result(ensureDeferred(self.scheduler.period()))
        return announcement

    def result(self, running: Deferred[Any]) -> Any:
        """Return the result of a deferred; time passes in seconds until it fires."""
        done: list[Any] = []
        running.addBoth(done.append)
        for _ in range(7200):
            if done:
                break
            self.clock.advance(1.0)
        assert done, "no result within two hours"
        if hasattr(done[0], "raiseException"):
            done[0].raiseException()
        return done[0]

    def periods(self, count: int, interval_s: float = 60.0) -> Announcement:
        """Run several periods, an interval apart, and return the last announcement."""
        for _ in range(count):
            latest = self.period()
            self.clock.advance(interval_s)
        return latest

    def read(self, work: Any) -> Any:
        """Return the result of a function of a connection."""
        return transaction(self.engine, work)

    def state(self, vm: int) -> str:
        """Return the VM's state in the cloud, under OpenNebula's name."""
        state, lcm = self.bench.state(vm)
        return Lcm(lcm).name if state == OneVmState.ACTIVE else OneVmState(state).name

    def host_of(self, vm: int) -> int:
        """Return the id of the VM's host in the cloud."""
        return int(self.bench.vm(vm).history[-1].host)

    def limits(self, vm: int) -> Any:
        """Return the limits that the VM's host enforces."""
        return self.cloud.guests.read([vm])[vm].limits

    def balances(self) -> Mapping[int | None, float]:
        """Return the credits by owner."""
        rows = self.read(lambda c: account_store.every(c, AccountKind.TENANT))
        return {row.owner: row.balance / 1e6 for row in rows}

    def outstanding(self) -> int:
        """Return the number of steps that are neither confirmed nor given up."""
        return len(self.read(journal.outstanding))

    def agree(self) -> None:
        """Check that the cloud and the database agree and that no credit is lost."""
        assert self.read(audit).sound
        newest = self.read(period_store.newest)
        rows = self.read(lambda c: journal.recent(c, journal.StepFilter(), 100_000))
        deployed = [r.step.vm for r in rows if r.step.kind == "deploy" and r.state == "confirmed"]
        deployed = [vm for vm in deployed if vm not in self.placed_again]
        assert len(deployed) == len(set(deployed)), "a VM was deployed twice"
        for row in rows:
            if row.state in {StepState.PLANNED, StepState.SENT}:
                assert row.step.period == newest.number, f"{row} is still open after its period"

    def close(self) -> None:
        """Close the cloud and the database."""
        self.cloud.close()
        self.engine.dispose()


def entries_by_reference(connection: sa.Connection) -> list[str]:
    """Return the references of all transactions."""
    return [row[0] for row in connection.execute(sa.text("SELECT reference FROM transactions"))]


def sum_shortfalls(connection: sa.Connection) -> int:
    """Return the sum of all amounts that charges could not collect."""
    numbers = [row.number for row in period_store.recent(connection, 1000)]
    return sum(sum(charge_store.shortfalls(connection, number).values()) for number in numbers)


QUICK = Rhythm(interval_s=60.0, settle_s=5.0, step_limit_s=300.0)
