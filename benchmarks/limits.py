"""How long limits take on their way: a thousand domains on fifty hosts, 5 ms a call.

python benchmarks/limits.py

Hosts are doubles of libvirt's connections; each call takes its 5 ms in the thread that makes
it. What is allowed is 1.5 times calls x latency / threads.
"""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from twisted.internet.defer import ensureDeferred

sys.path.insert(0, str(Path(__file__).parents[1]))
if find_spec("libvirt") is None:
    sys.exit("benchmarks/limits.py needs libvirt-python: pip install 'merkat[kvm]'")

from benchmarks.figures import Figures
from merkatd.cluster import Limit
from merkatd.commands.reactor import asyncio_reactor
from merkatd.hypervisor.libvirt import LibvirtHypervisors, LibvirtSettings
from tests.hypervisor.bed import limit
from tests.hypervisor.double import DoubleHost

HOSTS = 50
DOMAINS = 1_000
LATENCY_S = 0.005
THREADS = 10
"""As many as divide the hosts evenly: one host's calls never run side by side."""
ALLOWED = 1.5


class Bench:
    """The adapter, its hosts, and what their calls cost."""

    def __init__(self, reactor: Any, figures: Figures) -> None:
        self.figures = figures
        self.hosts = [DoubleHost() for _ in range(HOSTS)]
        for vm in range(DOMAINS):
            self.hosts[vm % HOSTS].start(vm, stats_period_s=10)
        for host in self.hosts:
            host.latency_s = LATENCY_S
        self.where = {vm: vm % HOSTS for vm in range(DOMAINS)}
        self.settings = LibvirtSettings(threads=THREADS)
        self.adapter = LibvirtHypervisors(
            reactor,
            lambda place: f"qemu:///{place.id}",
            self.settings,
            opened=lambda address, keep: self._host(address).open(address, keep),
        )

    def _host(self, address: str) -> DoubleHost:
        return self.hosts[int(address.rpartition("/")[2])]

    def calls(self) -> Counter[str]:
        """Made since this was asked last."""
        found: Counter[str] = Counter()
        for host in self.hosts:
            found += host.calls
            host.calls.clear()
        return found

    async def timed(self, name: str, running: Any) -> Any:
        """What it comes to; its time is held against its calls."""
        self.calls()
        begin = time.perf_counter()
        result = await running
        took_s = time.perf_counter() - begin
        count = sum(self.calls().values())
        least_s = count * LATENCY_S / THREADS
        self.figures.plain(f"{name}: calls", count)
        self.figures.plain(f"{name}: ms", took_s * 1e3)
        self.figures.at_most(
            f"{name}: time / (calls x latency / threads)", took_s / least_s, ALLOWED
        )
        return result

    async def apply(self, steps: Sequence[Limit]) -> None:
        """All must be taken."""
        refused = await self.adapter.apply(steps)
        if refused:
            raise AssertionError(
                f"{len(refused)} steps were refused: {next(iter(refused.values()))}"
            )

    async def all(self) -> None:
        """Every figure."""
        await self.timed("first read, everything unknown", self.adapter.read(self.where))
        changed = [limit(vm, vcpu=20_000 + vm, shares=1_000 + 200 * vm) for vm in self.where]
        await self.timed("1,000 changed limits", self.apply(changed))
        for host in self.hosts:
            for guest in host.domains.values():
                if guest.scheduler["vcpu_quota"] < 0:
                    raise AssertionError(f"{guest.label} was not told")
        await self.timed("full read, all limits read back", self._everything())
        self.calls()
        await self.adapter.read(self.where)
        await self.apply(changed)
        calls = self.calls()
        reads = calls["getAllDomainStats"] + calls["schedulerParameters"]
        self.figures.plain("nothing changed: calls of a period's read", reads)
        self.figures.at_most("nothing changed: other calls", sum(calls.values()) - reads, 0)

    async def _everything(self) -> None:
        """As many periods' reads as see every limit once."""
        for _ in range(self.settings.check_every):
            await self.adapter.read(self.where)


def main() -> int:
    """All figures."""
    reactor = asyncio_reactor()
    figures = Figures()
    outcomes: list[Any] = []

    async def measure() -> None:
        bench = Bench(reactor, figures)
        try:
            await bench.all()
        finally:
            for host in bench.hosts:
                host.latency_s = 0.0
            await bench.adapter.close()

    def begin() -> None:
        ensureDeferred(measure()).addBoth(outcomes.append).addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(begin)
    reactor.run()
    for outcome in outcomes:
        if outcome is not None:
            outcome.raiseException()
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
