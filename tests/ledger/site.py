"""`merkatd run` with an embedded cloud and a private MariaDB, in compressed time."""

import contextlib
import secrets
import xmlrpc.client
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa

from merkatd.api.control.control_client import ask
from merkatd.database import migrations
from merkatd.database.base.engine import make_engine
from merkatd.database.database import transaction
from merkatd.database.ledger import usage_store
from merkatd.database.scheduler.period_store import PERIODS, PeriodState
from tests import servers
from tests.daemon.processes import Program, until
from tests.servers import MariaDb

Result = TypeVar("Result")

SPEED = 60
"""Cloud seconds per real second."""
INTERVAL_S = 6.0
"""In cloud time: a tenth of a real second."""
TENANTS = ("ann", "bob", "eve")
"""Eve's weight is so small that she cannot pay for her VMs."""
FIRST_USER = 2
PLATFORMS_OF_EACH = 6
VMS_OF_EACH = 2
VMS = len(TENANTS) * (PLATFORMS_OF_EACH + VMS_OF_EACH)

_VM = """
NAME="{name}"
CPU="0.5"
VCPU="2"
MEMORY="512"
"""
_BIDS = """
MERKAT_BID_CPU="3"
MERKAT_BID_MEMORY="1"
EMBEDDED=[WORK="1000000000",DEMAND="1"]
"""
_PLATFORM = '''
name = "{name}"
over_budget = "go on"
[controller]
kind = "none"
[budget]
credits = 100
replenishment = 30
[[cluster]]
name = "nodes"
template = """
{vm}
EMBEDDED=[WORK="1000000000",DEMAND="1"]
"""
'''

# No VM is suspended for debts: the running VMs must not change during the count.
_DAEMON = """
[daemon]
state_directory = "{directory}/state"
[period]
interval = "{interval:g}s"
settle = "3s"
step_limit = "120s"
migration_limit = "120s"
keep_allocations = {kept}
[cloud]
hosts = 4
host_cores = 4
host_memory = "8GiB"
speed = {speed}
[market.default]
strategy = "paper"
price_rule = "paper"
[database]
url = "{url}"
[money]
supply = 30000
starting_credits = 1000
renewal = "1200s"
replenishment = "60s"
unpaid_periods = 1000000
"""


class Books:
    """A MariaDB, and the daemon that keeps its ledger there."""

    def __init__(self, directory: Path, server: MariaDb, kept: int) -> None:
        """Keep charges by period for `kept` periods."""
        self.directory = directory
        self.server = server
        self.password = secrets.token_hex(8)
        server.make("merkat")
        self._engine = make_engine(server.url("merkat"))
        with self._engine.begin() as connection:
            connection.exec_driver_sql(f"CREATE USER m@localhost IDENTIFIED BY '{self.password}'")
            connection.exec_driver_sql("GRANT ALL ON merkat.* TO m@localhost")
        migrations.upgrade(self._engine)
        url = server.url("merkat").replace("root@", f"m:{self.password}@")
        text = _DAEMON.format(
            directory=directory, interval=INTERVAL_S, kept=kept, speed=SPEED, url=url
        )
        (directory / "merkatd.toml").write_text(text)
        self.daemon = self._started()

    @property
    def log(self) -> str:
        """Return the log of all daemons so far."""
        return (self.directory / "log").read_text()

    def populate(self) -> None:
        """Create users, their VMs and VMs of platforms, and wait until all of them run."""
        state = self.directory / "state"
        control = state / "control.sock"
        until(control.exists, "the daemon answers")
        session = (state / "one_auth").read_text().strip()
        with xmlrpc.client.ServerProxy((state / "one_xmlrpc").read_text().strip()) as cloud:
            for name in TENANTS:
                assert cloud.one.user.allocate(session, name, "secret", "core")[0] is True  # type: ignore[index]  # an array
                for number in range(VMS_OF_EACH):
                    text = _VM.format(name=f"{name}-{number}") + _BIDS
                    assert cloud.one.vm.allocate(f"{name}:secret", text)[0] is True  # type: ignore[index]  # so it is
        ask(control, "tenant_weight", {"tenant": FIRST_USER + 2, "weight": 0.01})
        for owner, name in enumerate(TENANTS, FIRST_USER):
            for number in range(PLATFORMS_OF_EACH):
                called = f"{name}-p{number}"
                text = _PLATFORM.format(name=called, vm=_VM.format(name=called))
                ask(control, "platform_submit", {"tenant": str(owner), "template": text})
        until(self._all_run, "all VMs run")

    def read(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Run a query on the ledger in one transaction."""
        return transaction(self._engine, work)

    @contextlib.contextmanager
    def connected(self) -> Iterator[sa.Connection]:
        """Yield a connection that a kill may break."""
        connection = self._engine.connect()
        try:
            yield connection
        finally:
            connection.invalidate()
            connection.close()

    def kill(self, *, server: bool, daemon: bool) -> None:
        """Kill the server or the daemon, as a power cut would."""
        if server:
            self.server.kill()
        if daemon:
            self.daemon.kill()

    def start_again(self) -> None:
        """Start the killed processes again."""
        if not self.server.running:
            self.server.start()
            self._engine.dispose()
        if not self.daemon.running:
            self.daemon = self._started()

    def await_charge(self) -> None:
        """Wait for another charge, and check that the daemon stays alive."""
        before = self.read(charged_periods)
        until(lambda: self.alive() and self.read(charged_periods) > before, "another charge")

    def alive(self) -> bool:
        """Return True; raise AssertionError if the daemon has ended."""
        assert self.daemon.running, self.log
        return True

    def close(self) -> None:
        """End the daemon."""
        self.daemon.kill()
        self._engine.dispose()

    def _started(self) -> Program:
        config = str(self.directory / "merkatd.toml")
        return Program(self.directory / "log", "run", "--config", config)

    def _all_run(self) -> bool:
        return self.alive() and self.read(_charged_vms) == VMS


def charged_periods(connection: sa.Connection) -> int:
    """Return the number of charged periods."""
    query = sa.select(sa.func.count()).where(PERIODS.c.state == PeriodState.CHARGED)
    return connection.scalar(query) or 0


def _charged_vms(connection: sa.Connection) -> int:
    """Return the number of VMs in the newest charged period."""
    newest = connection.scalar(sa.select(sa.func.max(usage_store.DETAILS.c.period)))
    usage = None if newest is None else usage_store.load(connection, newest)
    return 0 if usage is None else len(usage.vm)


@contextlib.contextmanager
def books(directory: Path, kept: int) -> Iterator[Books]:
    """Yield a daemon whose VMs run and pay; remove everything afterwards."""
    with servers.mariadb() as server:
        made = Books(directory, server, kept)
        try:
            made.populate()
            yield made
        finally:
            made.close()
