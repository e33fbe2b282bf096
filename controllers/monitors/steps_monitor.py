"""The monitor `steps`, which counts iterations over SSH or through the embedded cloud.

Its parameters:
- `log`: the path of the application's log in each VM
- `pattern`: the regular expression of a log line about an iteration
- `status`: a file with the exit code, once the application has ended
- `configure`: a command that runs once in each VM, when it first answers
- `address`, `user`, `port`: replace the SSH settings of the daemon's configuration

Guests of the embedded cloud have no logs: there the cloud itself reports the iterations.
"""

import asyncio
import xmlrpc.client
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from controllers.controller import Hand
from controllers.monitors.guest_access import GuestAccess, home, site_keys, ssh_settings
from controllers.monitors.iteration_count import (
    Count,
    Notebook,
    Probe,
    ProbeResult,
    measured_values,
    of_guest,
)
from controllers.monitors.monitor import Monitor
from controllers.monitors.ssh_probe import ProbeTerms, ThroughSsh
from merkatd.protocol.bus_messages import Latest, LatestRequest


class ThroughCloud:
    """The `Probe` through the embedded cloud."""

    def __init__(self, home: Path, hand: Hand, cluster: str) -> None:
        """Connect to the cloud, whose address and key are in the state directory `home`."""
        self._session = (home / "one_auth").read_text().strip()
        self._proxy = xmlrpc.client.ServerProxy((home / "one_xmlrpc").read_text().strip())
        self._hand = hand
        self._cluster = cluster

    async def look(self) -> ProbeResult:
        """Return the iterations of each VM's guest."""
        latest = await self._hand.ask(LatestRequest())
        if not isinstance(latest, Latest) or latest.standing is None:
            return ProbeResult(at_s=0.0)
        vms = [
            vm.vm
            for vm in latest.standing.vms
            if vm.cluster == self._cluster and vm.state == "running" and not vm.leaving
        ]
        counts = await asyncio.to_thread(self._counts, vms)
        return ProbeResult(at_s=latest.standing.at_s, counts=counts)

    def close(self) -> None:
        """Close the connection."""
        self._proxy("close")()

    def _counts(self, vms: Sequence[int]) -> dict[int, Count]:
        guests = {}
        for vm in vms:
            answer: Any = self._proxy.embedded.guest.progress(self._session, vm)
            if answer[0]:
                guests[vm] = of_guest(answer[1])
        return guests


def has_cloud(home: Path) -> bool:
    """Return whether the daemon has an embedded cloud."""
    return (home / "one_xmlrpc").exists()


class Steps(Monitor):
    """Counts iterations in the way that fits the cloud."""

    def __init__(self, *given: Any, way: Probe | None = None, **named: Any) -> None:
        super().__init__(*given, **named)
        self._way = self._found() if way is None else way

    async def look(self) -> tuple[float, Mapping[str, float]] | None:
        """Return the time and the measurements; None while there are none."""
        seen = await self._way.look()
        values = {**measured_values(seen.counts, seen.absent, seen.at_s), **seen.more}
        return (seen.at_s, values) if values else None

    def _found(self) -> Probe:
        reach, here = ssh_settings(self.parameters), home()
        if reach is None:
            if has_cloud(here):
                return ThroughCloud(here, self._hand, self.cluster.name)
            raise ValueError(
                "no SSH address is set: set [bus] ssh_address or the monitor's parameters.address"
            )
        guests = GuestAccess(reach, site_keys(), self._hand, self.cluster.name)
        folder = here / "platforms" / str(self.assignment.platform)
        notebook = Notebook(folder / f"{self.cluster.name}.json")
        return ThroughSsh(guests, ProbeTerms.of(self.parameters), notebook)
