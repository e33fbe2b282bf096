"""A complete Merkat on real hosts: a daemon with its embedded cloud, MariaDB, and guests."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import xmlrpc.client
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from merkatd.cluster import Balloon, Limit, Pin
from merkatd.database.base.engine import make_engine
from merkatd.database.scheduler.period_store import PERIODS
from merkatd.database.scheduler.step_store import STEPS, StepState
from merkatd.demo.guest_domains import StartGuest
from merkatd.demo.real_guests import LibvirtGuests
from merkatd.opennebula.pools.vm_pool import VmRow, read_page
from tests.real.books import Books
from tests.real.host import ROOT, until

Result = TypeVar("Result")
INTERVAL_S = 1.0
PATIENCE_S = 120.0
_FOLLOWING_S = 0.1
_RUNNING = (3, 3)
_ON_HOSTS = (Limit.kind, Pin.kind, Balloon.kind)
_TOLD = (StepState.SENT, StepState.CONFIRMED)

_CONFIGURATION = """\
[daemon]
state_directory = "{directory}"
[database]
url = "{database}"
[period]
interval = "{interval}s"
settle = "50ms"
[cloud]
kind = "embedded"
hosts = {hosts}
host_cores = {cores}
host_memory = "{memory_mib}MiB"
[hypervisor]
kind = "libvirt"
uri = "{uri}"
{more}
"""


class Cloud:
    """A daemon and its guests; closing it ends both."""

    def __init__(
        self,
        directory: Path,
        addresses: Sequence[str],
        pattern: str,
        *,
        cores: int = 2,
        memory_mib: int = 1024,
        more: str = "",
        interval_s: float = INTERVAL_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`addresses` are those of libvirt, by host; the daemon derives them from the `pattern`."""
        self.directory = directory
        self._patience_s = patience_s
        self._daemon: subprocess.Popen[bytes] | None = None
        self._proxy: xmlrpc.client.ServerProxy | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        self.failed: list[str] = []
        directory.mkdir()
        self._books = Books()
        self.configuration.write_text(
            _CONFIGURATION.format(
                directory=directory / "state",
                database=self._books.url,
                interval=interval_s,
                hosts=len(addresses),
                cores=cores,
                memory_mib=memory_mib,
                uri=pattern,
                more=more,
            )
        )
        self.guests = LibvirtGuests(dict(enumerate(addresses)), self.described)
        self._engine = make_engine(self._books.url)

    # -- processes ----------------------------------------------------------------------------

    @property
    def configuration(self) -> Path:
        """Return the configuration file of the daemon and of commands."""
        return self.directory / "merkatd.toml"

    def start(self) -> None:
        """Start the daemon, and let guests follow its cloud."""
        self.start_daemon()
        self.after_periods(1)
        self._thread.start()

    def start_daemon(self) -> None:
        """Start the daemon, for the first time or after it was killed."""
        with (self.directory / "daemon.log").open("ab") as log:
            self._daemon = subprocess.Popen(
                [*_MERKATD, "run", "--config", str(self.configuration)],
                cwd=ROOT,
                env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill_daemon(self) -> None:
        """Kill the daemon, as a power cut would."""
        assert self._daemon is not None
        self._daemon.kill()
        self._daemon.wait()

    def command(self, *words: str) -> str:
        """Return the output of a command of merkatd, which must succeed."""
        done = subprocess.run(
            [*_MERKATD, *words, "--config", str(self.configuration)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr + self.output()
        return done.stdout

    def status(self) -> Mapping[str, Any]:
        """Return the output of `merkatd status`."""
        answer: Mapping[str, Any] = json.loads(self.command("status", "--json"))
        return answer

    def close(self) -> None:
        """End the daemon, then the guests."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._daemon is not None:
            self._daemon.terminate()
            try:
                self._daemon.wait(60.0)
            except subprocess.TimeoutExpired:
                self._daemon.kill()
                self._daemon.wait()
            # pytest shows the output of a failed test.
            sys.stdout.write(self.output())
        if self._proxy is not None:
            self._proxy("close")()
        self.guests.close()
        self._engine.dispose()
        self._books.drop()

    def output(self) -> str:
        """Return the daemon's log."""
        return (self.directory / "daemon.log").read_text()

    # -- VMs ----------------------------------------------------------------------------------

    def new(self, bid: float, *, vcpus: int = 2, memory_mib: int = 64, more: str = "") -> int:
        """Create a VM with this bid and return its id, once the VM and its guest run."""
        vm = self.allocated(bid, vcpus, memory_mib, more)
        until(lambda: self._runs(vm), f"VM {vm} runs", patience_s=self._patience_s)
        return vm

    def allocated(
        self, bid: float, vcpus: int, memory_mib: int, more: str, *, held: bool = False
    ) -> int:
        """Create a waiting VM and return its id; a held VM waits until a test deploys it."""
        text = f'NAME="vm" CPU="1" VCPU="{vcpus}" MEMORY="{memory_mib}"'
        text += f' MERKAT_BID_CPU="{bid:g}" MERKAT_BID_MEMORY="{bid:g}" {more}'
        return int(self.call("one.vm.allocate", text, held))

    def described(self, start: StartGuest) -> str:
        """Return the domain's XML for a VM that starts."""
        raise NotImplementedError

    def vms(self) -> dict[int, VmRow]:
        """Return all VMs as OpenNebula shows them."""
        pool = self.call("one.vmpool.infoextended", -2, -1, -1, -1)
        return {row.id: row for row in read_page(pool).vms}

    def call(self, method: str, *arguments: Any) -> Any:
        """Return the value of an administrator's call, which must succeed."""
        state = self.directory / "state"
        if self._proxy is None:
            endpoint = (state / "one_xmlrpc").read_text().strip()
            self._proxy = xmlrpc.client.ServerProxy(endpoint, use_builtin_types=True)
        session = (state / "one_auth").read_text().strip()
        answer: Any = getattr(self._proxy, method)(session, *arguments)
        assert answer[0] is True, answer
        return answer[1]

    # -- periods ------------------------------------------------------------------------------

    def periods(self) -> int:
        """Return the number of periods that have sent all the steps that they could send."""
        done = sa.select(sa.func.count()).select_from(PERIODS).where(PERIODS.c.acted_s.is_not(None))
        return self.read(lambda connection: connection.scalar(done) or 0)

    def steps_sent(self) -> int:
        """Return the number of all steps for hosts."""
        statement = sa.select(sa.func.count()).select_from(STEPS).where(STEPS.c.kind.in_(_ON_HOSTS))
        return self.read(lambda connection: connection.scalar(statement) or 0)

    def balloons(self, vm: int) -> list[int]:
        """Return all balloon targets that a VM's host has received, in MiB, the oldest first."""
        statement = (
            sa.select(STEPS.c.detail)
            .where(STEPS.c.kind == Balloon.kind, STEPS.c.vm == vm, STEPS.c.state.in_(_TOLD))
            .order_by(STEPS.c.period, STEPS.c.position)
        )
        details = self.read(lambda connection: connection.scalars(statement).all())
        return [int(json.loads(detail)["memory_mib"]) for detail in details]

    def after_periods(self, number: int) -> None:
        """Wait for this number of further periods."""
        wanted = self._periods_if_any() + number
        until(
            lambda: self._periods_if_any() >= wanted,
            f"period {wanted}",
            patience_s=self._patience_s,
        )

    def read(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Return the result of a read of the daemon's database."""
        with self._engine.connect() as connection:
            return work(connection)

    # -- inside -------------------------------------------------------------------------------

    def _periods_if_any(self) -> int:
        assert self._daemon is not None
        assert self._daemon.poll() is None, self.output()
        # The daemon creates the tables.
        with contextlib.suppress(sa.exc.ProgrammingError):
            return self.periods()
        return 0

    def _runs(self, vm: int) -> bool:
        assert not self.failed, self.failed
        row = self.vms()[vm]
        return (row.state, row.life) == _RUNNING and vm in self.guests.there

    def _follow(self) -> None:
        proxy = _Follower(self)
        while not self._over.wait(_FOLLOWING_S):
            self.failed += self.guests.follow(proxy.vms())
        proxy.close()


class _Follower:
    """A connection to the cloud for the thread that follows it."""

    def __init__(self, site: Cloud) -> None:
        state = site.directory / "state"
        self._session = (state / "one_auth").read_text().strip()
        self._proxy = xmlrpc.client.ServerProxy((state / "one_xmlrpc").read_text().strip())

    def vms(self) -> Sequence[VmRow]:
        pool = self._proxy.one.vmpool.infoextended(self._session, -2, -1, -1, -1)
        return read_page(str(pool[1])).vms  # type: ignore[index] # an answer is a list

    def close(self) -> None:
        self._proxy("close")()


_MERKATD = [sys.executable, "-W", "error", "-m", "merkatd.cli"]
