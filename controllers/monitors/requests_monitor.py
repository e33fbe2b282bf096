"""The monitor `requests`, which measures the requests that proxies answer, over SSH.

Its parameters:
- `source`: `haproxy`, whose counters it reads, or `nginx`, whose access log it reads
- `socket` or `url`, `frontend`, `backend`: HAProxy's socket or page of statistics, and which
  proxies count
- `log`: the path of nginx's access log
- `window_s`: the time over which it measures
- `address`, `user`, `port`: as for the monitor `steps`

Guests of the embedded cloud run no proxies: there the cloud itself reports the requests.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

from controllers.measurements import ABSENT, ANSWERING
from controllers.monitors.guest_access import GuestAccess, home, running, site_keys, ssh_settings
from controllers.monitors.iteration_count import Notebook, memory_of_vms
from controllers.monitors.monitor import Monitor
from controllers.monitors.ssh_pool import CommandResult
from controllers.monitors.steps_monitor import has_cloud
from controllers.monitors.traffic.access_log import AccessLogs
from controllers.monitors.traffic.cloud_requests import RequestsThroughCloud
from controllers.monitors.traffic.haproxy_stats import HaproxyCounters
from controllers.monitors.traffic.request_window import RequestWindow, Traffic
from merkatd.base.parameter_bounds import number
from merkatd.protocol.platform_messages import VmNow
from merkatd.protocol.request_terms import NGINX, RequestTerms

_MOST_ROUNDS: Final = 3
"""The commands of a look at most: one for the rest of a rotated log, one for the new log."""
_SHORTEST_S: Final = 0.1
"""The shortest time between two looks that gives rates."""


class TrafficSource(Protocol):
    """The interface of a way to read the traffic of a cluster's VMs."""

    def begin(self, vms: Iterable[int]) -> None:
        """Begin a look at these VMs, and forget all others."""

    def command(self, vm: int) -> str:
        """Return the next command for a VM."""

    def take(self, vm: int, answer: bytes) -> bool:
        """Take an answer; return whether another command is needed. Raise ValueError."""

    def traffic(self) -> Mapping[int, Traffic]:
        """Return the traffic of each VM since its last look, if it had one."""


def source_of(terms: RequestTerms) -> TrafficSource:
    """Return the source that a template names."""
    return AccessLogs(terms.log) if terms.source == NGINX else HaproxyCounters(terms)


class RequestProbe:
    """The traffic of a cluster's VMs over a window, and the VMs that never answered."""

    def __init__(
        self,
        guests: GuestAccess,
        source: TrafficSource,
        window_s: float,
        notebook: Notebook,
        *,
        now: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start without data. `now` is the time of day; `ticks` never jumps, and gives rates."""
        self._guests = guests
        self._source = source
        self._window = RequestWindow(window_s)
        self._notebook = notebook
        self._now = now
        self._ticks = ticks
        self._known = notebook.load()
        self._read_s: dict[int, float] = {}
        """When each VM was last read, in ticks."""

    async def look(self) -> tuple[float, Mapping[str, float]] | None:
        """Read all running VMs once; return the time and the measurements."""
        there = await self._guests.there()
        at_s, tick_s = self._now(), self._ticks()
        if there is None:
            return None
        vms = running(there)
        self._known = memory_of_vms(self._known, there, at_s)
        self._source.begin(vms)
        answering, read = await self._read(vms)
        for vm in answering:
            self._known[vm] = replace(self._known[vm], up=True)
        self._notebook.keep(self._known)
        self._add(vms, read, tick_s)
        self._window.keep(vms, tick_s)
        absent = {vm: at_s - self._known[vm].first_s for vm in vms if not self._known[vm].up}
        values = {f"{ABSENT}{vm}": seconds for vm, seconds in absent.items()}
        values |= self._window.values()
        if answering:
            values[ANSWERING] = float(len(answering))
        return (at_s, values) if values else None

    def close(self) -> None:
        """Close all connections."""
        self._guests.close()

    async def _read(self, vms: Mapping[int, VmNow]) -> tuple[set[int], set[int]]:
        """Return the VMs that answered, and those whose answers were all valid."""
        left, answering, read = dict(vms), set[int](), set[int]()
        for _ in range(_MOST_ROUNDS):
            if not left:
                break
            heard = await self._guests.ask(left, self._source.command)
            more = {}
            for vm, outcome in heard.items():
                if not isinstance(outcome, CommandResult):
                    continue
                answering.add(vm)
                out = outcome.out if outcome.status == 0 else b""
                try:
                    if self._source.take(vm, out):
                        more[vm] = left[vm]
                    read.add(vm)
                except ValueError:  # a VM is the tenant's own machine, and may answer anything
                    read.discard(vm)
            left = more
        return answering, read

    def _add(self, vms: Iterable[int], read: set[int], tick_s: float) -> None:
        """Add the traffic of the VMs that were read since their last look."""
        for vm, traffic in self._source.traffic().items():
            took_s = tick_s - self._read_s.get(vm, tick_s)
            if vm in read and took_s >= _SHORTEST_S:
                self._window.add(vm, tick_s, took_s, traffic)
        known = {vm: self._read_s[vm] for vm in vms if vm in self._read_s}
        self._read_s = known | dict.fromkeys(read, tick_s)


class Requests(Monitor):
    """Measures the requests of the proxies in a cluster."""

    def __init__(self, *given: Any, probe: RequestProbe | None = None, **named: Any) -> None:
        super().__init__(*given, **named)
        self._probe: RequestProbe | RequestsThroughCloud = probe or self._made()

    async def look(self) -> tuple[float, Mapping[str, float]] | None:
        """Return the time and the measurements; None while there are none."""
        return await self._probe.look()

    def _made(self) -> RequestProbe | RequestsThroughCloud:
        terms, reach = RequestTerms.of(self.parameters), ssh_settings(self.parameters)
        if reach is None:
            if has_cloud(home()):
                return RequestsThroughCloud(home(), self._hand, self.cluster.name)
            raise ValueError(
                "no SSH address is set: set [bus] ssh_address or the monitor's parameters.address"
            )
        guests = GuestAccess(reach, site_keys(), self._hand, self.cluster.name)
        folder = home() / "platforms" / str(self.assignment.platform)
        return RequestProbe(
            guests,
            source_of(terms),
            number(self.parameters, "window_s"),
            Notebook(folder / f"{self.cluster.name}.json"),
        )
