"""A daemon that manages an embedded or a real OpenNebula, with `onegroup` as its client."""

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

    def __init__(
        self, cloud_endpoint: Endpoint, folder: Path, interval_s: float, database: str
    ) -> None:
        self.opennebula = cloud_endpoint
        self.folder = folder
        self.users: dict[str, tuple[int, str]] = {
            name: cloud_endpoint.user() for name in ("ann", "bob")
        }
        (folder / "one_auth").write_text(f"{cloud_endpoint.admin}\n")
        self.configuration = folder / "merkatd.toml"
        endpoint = os.environ[REAL] if folder.name.startswith("oned") else self._address()
        self.configuration.write_text(
            _DAEMON.format(folder=folder, endpoint=endpoint, interval=interval_s, database=database)
        )
        self.daemon: Program | None = None
        # A real server still has VMs of earlier tests, whose groups had the same ids.
        self._before = max(self._pool(), default=-1)

    def _address(self) -> str:
        return (self.folder / "cloud.log").read_text().split()[-1]

    @property
    def log(self) -> Path:
        """Return the path of the daemon's log."""
        return self.folder / "daemon.log"

    @property
    def admin(self) -> str:
        """Return the administrator's session for Merkat and OpenNebula."""
        return self.opennebula.admin

    @property
    def endpoint(self) -> str:
        """Return the address of the tenants' interface."""
        return (self.folder / "state" / "merkat_xmlrpc").read_text().strip()

    def session(self, user: str) -> str:
        """Return the session of a user."""
        return self.users[user][1]

    def start(self) -> None:
        """Start the daemon and wait until it answers."""
        log = self.log
        (self.folder / "state" / "merkat_xmlrpc").unlink(missing_ok=True)
        self.daemon = Program(log, "run", "--config", str(self.configuration))
        self.daemon.until_output("Period ")

    def kill(self) -> None:
        """Kill the daemon, as a power cut would."""
        assert self.daemon is not None
        self.daemon.kill()
        assert "Traceback" not in self.daemon.output(), self.daemon.output()

    def end(self) -> None:
        """End the daemon as an administrator would."""
        assert self.daemon is not None
        self.daemon.tell_to_end()
        assert self.daemon.end() == 0, self.daemon.output()

    @property
    def ended(self) -> bool:
        """Whether the daemon has ended."""
        return self.daemon is None or not self.daemon.running

    def close(self) -> None:
        """Leave no daemon behind."""
        if self.daemon is not None:
            self.daemon.kill()

    def vms(self, group: int) -> dict[int, Any]:
        """Return OpenNebula's rows of a group's VMs, including those that are done."""
        return {
            vm: row
            for vm, row in sorted(self._pool().items())
            if vm > self._before and row.findtext("USER_TEMPLATE/MERKAT_GROUP") == str(group)
        }

    def _pool(self) -> dict[int, Any]:
        return dict(self.opennebula.pool("one.vmpool.infoextended", -2, -1, -1, -2))

    def states(self, group: int) -> dict[int, tuple[int, int]]:
        """Return STATE and LCM_STATE of a group's VMs."""
        return {vm: _state(row) for vm, row in self.vms(group).items()}

    def alive(self, group: int) -> list[int]:
        """Return the ids of the VMs that are not done."""
        return [vm for vm, state in self.states(group).items() if state != DONE]

    def until_running(self, group: int, count: int) -> list[int]:
        """Wait until `count` VMs of a group run and no others exist; return their ids."""

        def there() -> bool:
            states = [state for state in self.states(group).values() if state != DONE]
            return states == [RUNNING] * count

        until(there, f"{count} VMs of group {group} running")
        return self.alive(group)


def _state(row: Any) -> tuple[int, int]:
    return int(row.findtext("STATE")), int(row.findtext("LCM_STATE"))


@contextmanager
def managed(cloud: str, folder: Path, database: str) -> Iterator[Managed]:
    """Yield one of the clouds with two hosts, two users, a daemon and its database."""
    time = RealTime()
    time.faster = 1
    begin: Callable[..., Any] = _embedded if cloud == "embedded" else _oned
    try:
        with begin(time, folder) as endpoint:
            made = Managed(endpoint, folder, 0.5 if cloud == "embedded" else 2.0, database)
            try:
                made.start()
                yield made
            finally:
                made.close()
    finally:
        time.close()


@contextmanager
def _embedded(time: RealTime, folder: Path) -> Iterator[Endpoint]:
    """Yield the embedded cloud as a process, at twenty times the speed."""
    words = ("--listen", "127.0.0.1:0", "--speed", "20", "--hosts", "0", "--password", "secret")
    program = Program(folder / "cloud.log", "embedded", *words)
    try:
        program.until_output("/RPC2\n")
        with _client(time, program.output().split()[-1], _ADMIN, None) as endpoint:
            endpoint.add_hosts(HOSTS)
            yield endpoint
    finally:
        program.kill()


@contextmanager
def _oned(time: RealTime, folder: Path) -> Iterator[Endpoint]:
    """Yield the server of the environment, which must be for tests only."""
    del folder
    with _client(time, os.environ[REAL], _session(os.environ[AUTH]), None) as endpoint:
        refuse_to_harm(endpoint)
        clean(endpoint)
        try:
            endpoint.add_hosts(HOSTS)
            yield endpoint
        finally:
            clean(endpoint)


def make_template(endpoint: Endpoint, session: str, text: str) -> tuple[int, str]:
    """Create a user's template in OpenNebula; return its id and name."""
    name = endpoint.name()
    made = endpoint.ok("one.template.allocate", f'NAME="{name}"\n{text}', session=session)
    return int(made), name
