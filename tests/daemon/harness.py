"""A cloud and a daemon in their own processes, with their own files, in compressed time."""

import contextlib
import http.client
import time
import xmlrpc.client
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa
from lxml import etree

from merkatd.database.base.engine import make_engine
from merkatd.database.scheduler.period_store import PERIODS
from tests.daemon.processes import Program, until
from tests.daemon.tenants import Tenants

Result = TypeVar("Result")

ADMIN = "oneadmin:secret"
SPEED = 20
"""The speed of the cloud's time: a guest boots in 55 ms."""
INTERVAL_S = 0.15
LIMIT_S = 3.0
"""The time after which a step fails."""
CALL_LIMIT_S = 0.25

FAILED = ("36", "37", "39", "42", "47", "49", "50", "61", "63", "64")
"""The LCM_STATEs in which a VM waits for an administrator's recovery."""

_CLOUD = """
[[users]]
name = "ann"
password = "secret"
[[users]]
name = "bob"
password = "secret"
[[hosts]]
count = 4
cpu = 2
memory = "8GiB"
"""

_DAEMON = """
[daemon]
state_directory = "{directory}/state"
[period]
interval = "{interval}s"
settle = "0.15s"
step_limit = "{limit}s"
migration_limit = "{limit}s"
grace = "{grace}s"
[cloud]
kind = "opennebula"
endpoint = "{endpoint}"
auth_file = "{directory}/one_auth"
call_limit = "{call_limit}s"
[strategy.tabu]
hold = "1s"
m_max_least = 5
"""


class _Impatient(xmlrpc.client.Transport):
    """A transport with a short timeout."""

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        connection = super().make_connection(host)
        connection.timeout = 2 * CALL_LIMIT_S
        return connection


class Site:
    """One cloud, one daemon and their tenants."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.rng = np.random.default_rng(seed)
        self.tenants = Tenants(self.ask, np.random.default_rng([seed, 1]))
        self.cloud: Program | None = None
        self.daemon: Program | None = None
        self._proxy: xmlrpc.client.ServerProxy | None = None
        self._address = "127.0.0.1:0"
        (directory / "cloud.toml").write_text(_CLOUD)
        (directory / "one_auth").write_text(f"{ADMIN}\n")
        (directory / "state").mkdir()
        self._engine = make_engine(f"sqlite:///{directory / 'state' / 'merkat.db'}")

    # -- processes ----------------------------------------------------------------------------

    def start_cloud(self) -> None:
        """Start the cloud, always at the same address; return once it answers."""
        options = {
            "--listen": self._address,
            "--file": self.directory / "cloud.toml",
            "--state": self.directory / "cloud.db",
            "--speed": SPEED,
            "--password": ADMIN.partition(":")[2],
        }
        words = [str(word) for option in options.items() for word in option]
        self.cloud = Program(self.directory / "cloud.log", "embedded", *words)
        self.cloud.until_output("/RPC2\n")
        endpoint = self.cloud.output().split()[-1]
        if self._proxy is None:
            self._address = endpoint.removeprefix("http://").removesuffix("/RPC2")
            self.configure()
            transport = _Impatient(use_builtin_types=True)
            self._proxy = xmlrpc.client.ServerProxy(endpoint, transport=transport)

    def start_daemon(self) -> Program:
        """Start the daemon; return without waiting for its first period."""
        self.daemon = self.another_daemon()
        return self.daemon

    def another_daemon(self) -> Program:
        """Start a further daemon with the same configuration."""
        config = str(self.directory / "merkatd.toml")
        return Program(self.directory / "daemon.log", "run", "--config", config)

    def kill_daemon(self) -> None:
        """End the daemon as a power cut would."""
        assert self.daemon is not None
        self.daemon.kill()
        assert "Traceback" not in self.daemon.output(), self.daemon.output()

    def kill_cloud(self) -> None:
        """End the cloud as a power cut would; its guests go on."""
        assert self.cloud is not None
        self.cloud.kill()
        assert "Traceback" not in self.cloud.output(), self.cloud.output()

    def close(self) -> None:
        """Kill both programs and close the connections."""
        for program in (self.daemon, self.cloud):
            if program is not None:
                program.kill()
        if self._proxy is not None:
            self._proxy("close")()
        self._engine.dispose()

    def configure(
        self,
        *,
        call_limit_s: float = CALL_LIMIT_S,
        grace_s: float = 5.0,
        database: str | None = None,
    ) -> None:
        """Write the configuration that the next daemon reads; `database` is the URL of a server."""
        text = _DAEMON.format(
            directory=self.directory,
            interval=INTERVAL_S,
            limit=LIMIT_S,
            call_limit=call_limit_s,
            grace=grace_s,
            endpoint=f"http://{self._address}/RPC2",
        )
        if database is not None:
            text += f'[database]\nurl = "{database}"\n'
            self._engine.dispose()
            self._engine = make_engine(database)
        (self.directory / "merkatd.toml").write_text(text)

    # -- questions ----------------------------------------------------------------------------

    def call(self, method: str, *arguments: Any, session: str = ADMIN) -> Any:
        """Return the value of a call that must succeed."""
        answer = self.ask(method, *arguments, session=session)
        assert answer[0] is True, answer
        return answer[1]

    def ask(self, method: str, *arguments: Any, session: str = ADMIN) -> Any:
        """Return the whole answer to a call."""
        assert self._proxy is not None
        return getattr(self._proxy, method)(session, *arguments)

    def read(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Read from the database."""
        with self._engine.connect() as connection:
            return work(connection)

    def good_periods(self) -> int:
        """Return the number of periods whose steps were all sent."""
        return self.read(lambda connection: _count(connection, PERIODS.c.acted_s.is_not(None)))

    def begun_periods(self) -> int:
        """Return the number of periods that observed the cloud."""
        return self.read(lambda connection: _count(connection, sa.true()))

    # -- faults -------------------------------------------------------------------------------

    def fault(self, kind: str, method: str = "one.*", **fields: Any) -> None:
        """Add a fault, until the cloud is healed or killed."""
        self.call("embedded.fault.add", {"kind": kind, "method": method, **fields})

    def heal(self) -> None:
        """Remove all faults."""
        self.call("embedded.fault.clear")

    def lie(self, what: str, seconds: float) -> None:
        """Freeze the VMs or hosts in the pools for this time."""
        self.call("embedded.fault.lie", what, -1, round(seconds * SPEED))

    def recover(self) -> None:
        """Retry failed VMs, as an administrator would by hand."""
        pool = etree.fromstring(self.call("one.vmpool.infoextended", -2, -1, -1, -1))
        for vm in pool.findall("VM"):
            if vm.findtext("LCM_STATE") in FAILED:
                self.call("one.vm.recover", int(vm.findtext("ID", "")), 2)

    # -- time ---------------------------------------------------------------------------------

    def after_good_periods(self, number: int, *, busy: bool = False) -> None:
        """Wait for this number of good periods; the tenants act meanwhile if `busy`."""
        wanted = self.good_periods() + number
        daemon = self.daemon
        assert daemon is not None

        def reached() -> bool:
            assert daemon.running, daemon.output()
            return self.good_periods() >= wanted

        until(reached, f"good period {wanted}", self.tenants.act if busy else lambda: None)

    def busy_for(self, seconds: float) -> None:
        """Let the tenants act for this time."""
        ending = time.monotonic() + seconds
        until(lambda: time.monotonic() >= ending, "time passes", self.tenants.act)


def _count(connection: sa.Connection, which: sa.ColumnElement[bool]) -> int:
    if not sa.inspect(connection).has_table(PERIODS.name):
        return 0
    return connection.scalar(sa.select(sa.func.count()).select_from(PERIODS).where(which)) or 0


@contextlib.contextmanager
def site(directory: Path, seed: int) -> Iterator[Site]:
    """Start a site with its cloud and its daemon; kill both afterwards."""
    new_site = Site(directory, seed)
    try:
        new_site.start_cloud()
        new_site.start_daemon()
        yield new_site
    finally:
        new_site.close()
