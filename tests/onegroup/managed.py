"""A daemon that manages an OpenNebula of its own or a real one, and `onegroup` before it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.api.xmlrpc.site import until
from tests.contract.cleaning import clean, refuse_to_harm
from tests.contract.conftest import AUTH, REAL, _client, _session
from tests.contract.endpoint import Endpoint
from tests.contract.ways import DONE, RUNNING
from tests.daemon.processes import Program
from tests.opennebula.worlds import RealTime

CLOUDS = ("embedded", *(("oned",) if all(map(os.environ.get, (REAL, AUTH))) else ()))
HOSTS = 2
_ADMIN = "oneadmin:secret"
_DAEMON = """
[daemon]
state_directory = "{folder}/state"
log_file = "{folder}/daemon.log"
[database]
url = "{database}"
[period]
interval = "{interval}s"
settle = "{interval}s"
least_interval = "200ms"
[cloud]
kind = "opennebula"
endpoint = "{endpoint}"
auth_file = "{folder}/one_auth"
[hypervisor]
kind = "none"
[market.groups]
strategy = "groups"
[money]
starting_credits = 100000.0
[api]
user_calls = 100000.0
user_orders = 100000.0
address_calls = 100000.0
"""


class Managed:
    """A cloud with two hosts, and a daemon whose only market is for groups."""

    def __init__(self, one: Endpoint, folder: Path, interval_s: float, database: str) -> None:
        self.one = one
        self.folder = folder
        self.users: dict[str, tuple[int, str]] = {name: one.user() for name in ("ann", "bob")}
        (folder / "one_auth").write_text(f"{one.admin}\n")
        self.configuration = folder / "merkatd.toml"
        endpoint = os.environ[REAL] if folder.name.startswith("oned") else self._address()
        self.configuration.write_text(
            _DAEMON.format(folder=folder, endpoint=endpoint, interval=interval_s, database=database)
        )
        self.daemon: Program | None = None
        # A real server remembers the VMs of earlier tests, whose groups had the same ids.
        self._before = max(self._pool(), default=-1)

    def _address(self) -> str:
        return (self.folder / "cloud.log").read_text().split()[-1]

    @property
    def log(self) -> Path:
        """What the daemon has written."""
        return self.folder / "daemon.log"

    @property
    def admin(self) -> str:
        """The administrator's session, for Merkat as for OpenNebula."""
        return self.one.admin

    @property
    def endpoint(self) -> str:
        """Where the daemon answers tenants."""
        return (self.folder / "state" / "merkat_xmlrpc").read_text().strip()

    def session(self, user: str) -> str:
        """A user's."""
        return self.users[user][1]

    def start(self) -> None:
        """Start the daemon; it answers afterwards."""
        log = self.log
        (self.folder / "state" / "merkat_xmlrpc").unlink(missing_ok=True)
        self.daemon = Program(log, "run", "--config", str(self.configuration))
        self.daemon.until_said("Period ")

    def kill(self) -> None:
        """End the daemon as a power cut would."""
        assert self.daemon is not None
        self.daemon.kill()
        assert "Traceback" not in self.daemon.said(), self.daemon.said()

    def end(self) -> None:
        """End it as an administrator does."""
        assert self.daemon is not None
        self.daemon.tell_to_end()
        assert self.daemon.end() == 0, self.daemon.said()

    @property
    def ended(self) -> bool:
        """Whether the daemon has ended."""
        return self.daemon is None or not self.daemon.running

    def close(self) -> None:
        """Leave no daemon behind."""
        if self.daemon is not None:
            self.daemon.kill()

    def vms(self, group: int) -> dict[int, Any]:
        """OpenNebula's rows of a group's VMs, those that are done among them."""
        return {
            vm: row
            for vm, row in sorted(self._pool().items())
            if vm > self._before and row.findtext("USER_TEMPLATE/MERKAT_GROUP") == str(group)
        }

    def _pool(self) -> dict[int, Any]:
        return dict(self.one.pool("one.vmpool.infoextended", -2, -1, -1, -2))

    def states(self, group: int) -> dict[int, tuple[int, int]]:
        """STATE and LCM_STATE of the same."""
        return {vm: _state(row) for vm, row in self.vms(group).items()}

    def alive(self, group: int) -> list[int]:
        """The ids of those that are not done."""
        return [vm for vm, state in self.states(group).items() if state != DONE]

    def until_running(self, group: int, count: int) -> list[int]:
        """The ids of a group's VMs, once there are so many and all of them run."""

        def there() -> bool:
            states = [state for state in self.states(group).values() if state != DONE]
            return states == [RUNNING] * count

        until(there, f"{count} VMs of group {group} running")
        return self.alive(group)


def _state(row: Any) -> tuple[int, int]:
    return int(row.findtext("STATE")), int(row.findtext("LCM_STATE"))


@contextmanager
def managed(cloud: str, folder: Path, database: str) -> Iterator[Managed]:
    """One of the clouds, with two hosts and two users, and its daemon with its database."""
    time = RealTime()
    time.faster = 1
    begin: Callable[..., Any] = _embedded if cloud == "embedded" else _oned
    try:
        with begin(time, folder) as one:
            made = Managed(one, folder, 0.5 if cloud == "embedded" else 2.0, database)
            try:
                made.start()
                yield made
            finally:
                made.close()
    finally:
        time.close()


@contextmanager
def _embedded(time: RealTime, folder: Path) -> Iterator[Endpoint]:
    """The embedded cloud as a process of its own, twenty times as fast."""
    words = ("--listen", "127.0.0.1:0", "--speed", "20", "--hosts", "0", "--password", "secret")
    program = Program(folder / "cloud.log", "embedded", *words)
    try:
        program.until_said("/RPC2\n")
        with _client(time, program.said().split()[-1], _ADMIN, None) as one:
            one.add_hosts(HOSTS)
            yield one
    finally:
        program.kill()


@contextmanager
def _oned(time: RealTime, folder: Path) -> Iterator[Endpoint]:
    """The server that the environment names, which must be there for tests alone."""
    del folder
    with _client(time, os.environ[REAL], _session(os.environ[AUTH]), None) as one:
        refuse_to_harm(one)
        clean(one)
        try:
            one.add_hosts(HOSTS)
            yield one
        finally:
            clean(one)


def kept(one: Endpoint, session: str, text: str) -> tuple[int, str]:
    """A template of a user's in OpenNebula: its id and its name."""
    name = one.name()
    made = one.ok("one.template.allocate", f'NAME="{name}"\n{text}', session=session)
    return int(made), name
