"""A monitor of requests whose looks and clocks a test controls."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controllers.monitors.guest_access import GuestAccess, SshReach
from controllers.monitors.iteration_count import Notebook
from controllers.monitors.requests_monitor import RequestProbe, Requests, source_of
from controllers.monitors.ssh_pool import SshLimits
from merkatd.protocol.guest_keys import GuestKeys
from merkatd.protocol.request_terms import RequestTerms
from tests.bus.rig import assignment, watched
from tests.controllers.monitors.sshd import Sshd, user
from tests.controllers.monitors.test_steps import Daemon

KEYS = GuestKeys(b"a secret of thirty-two bytes....")


class Watch:
    """A monitor of the cluster `workers` whose looks and clocks the test controls."""

    def __init__(self, directory: Path, sshds: list[Sshd], vms: int, **parameters: Any) -> None:
        self.daemon = Daemon(vms)
        self.now_s = 1000.0
        self.tick_s = 5.0
        self._directory = directory
        self._parameters = parameters
        self._reach = SshReach(
            address="127.0.3.{vm}",
            user=user(),
            port=sshds[0].port,
            limits=SshLimits(pool=4, connect_s=20.0, command_s=20.0),
        )
        self.start()

    def start(self) -> None:
        """Start a monitor that has only its notebook."""
        self.probe = RequestProbe(
            GuestAccess(self._reach, KEYS, self.daemon, "workers"),
            source_of(RequestTerms.of(self._parameters)),
            60.0,
            Notebook(self._directory / "notes.json"),
            now=lambda: self.now_s,
            ticks=lambda: self.tick_s,
        )
        assigned = watched(assignment(), "requests", **self._parameters)
        self.monitor = Requests(assigned, assigned.clusters[0], self.daemon, probe=self.probe)

    def look(self, after_s: float = 20.0) -> Mapping[str, float]:
        """Return the values of a look so many seconds after the last one."""
        self.now_s += after_s
        self.tick_s += after_s
        seen = asyncio.run(self.monitor.look())
        return {} if seen is None else seen[1]
