"""The time to read and set limits: 1,000 domains on 50 hosts, 5 ms per call.

python benchmarks/bench_limits.py

Hosts are test doubles of libvirt's connections; each call takes 5 ms in the thread that makes it.
The limit is 1.5 x calls x latency / threads, with the default number of threads. Each figure is
the minimum of several rounds, to exclude other work of the machine.
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
    sys.exit("benchmarks/bench_limits.py needs libvirt-python: pip install 'merkat[kvm]'")

from benchmarks.support.measurement import Figures
from merkatd.base.clock import asyncio_reactor
from merkatd.cluster import Limit
from merkatd.hypervisor.libvirt import LibvirtHypervisors, LibvirtSettings
from tests.hypervisor.bed import limit
from tests.hypervisor.double import DoubleHost

HOSTS = 50
DOMAINS = 1_000
LATENCY_S = 0.005
ROUNDS = 3
ALLOWED = 1.5
FIRST, CHANGED, FULL = (
    "first read, everything unknown",
    "1,000 changed limits",
    "full read, all limits read back",
)


class Bench:
    """The adapter, its hosts, and the measured calls."""

    def __init__(self, reactor: Any) -> None:
        self.took: dict[str, tuple[int, float]] = {}
        """Number of calls and their total seconds, by name of the figure."""
        self.reads, self.others = 0, 0
        """Numbers of reading and other calls in a period in which nothing changed."""
        self.hosts = [DoubleHost() for _ in range(HOSTS)]
        for vm in range(DOMAINS):
            self.hosts[vm % HOSTS].start(vm, stats_period_s=10)
        for host in self.hosts:
            host.latency_s = LATENCY_S
        self.where = {vm: vm % HOSTS for vm in range(DOMAINS)}
        self.settings = LibvirtSettings()
        self.adapter = LibvirtHypervisors(
            reactor,
            lambda place: f"qemu:///{place.id}",
            self.settings,
            opened=lambda address, keep: self._host(address).open(address, keep),
        )

    def _host(self, address: str) -> DoubleHost:
        return self.hosts[int(address.rpartition("/")[2])]

    def calls(self) -> Counter[str]:
        """Return the calls made since the last call of this method."""
        calls: Counter[str] = Counter()
        for host in self.hosts:
            calls += host.calls
            host.calls.clear()
        return calls

    async def timed(self, name: str, running: Any) -> None:
        """Await `running`, and store the number of its calls and its time."""
        self.calls()
        begin = time.perf_counter()
        await running
        took_s = time.perf_counter() - begin
        self.took[name] = sum(self.calls().values()), took_s

    async def apply(self, steps: Sequence[Limit]) -> None:
        """Apply the steps. Raise AssertionError if one is refused."""
        refused = await self.adapter.apply(steps)
        if refused:
            raise AssertionError(
                f"{len(refused)} steps were refused: {next(iter(refused.values()))}"
            )

    async def all(self) -> None:
        """Measure everything."""
        await self.timed(FIRST, self.adapter.read(self.where))
        changed = [limit(vm, vcpu=20_000 + vm, shares=1_000 + 200 * vm) for vm in self.where]
        await self.timed(CHANGED, self.apply(changed))
        for host in self.hosts:
            for guest in host.domains.values():
                if guest.scheduler["vcpu_quota"] < 0:
                    raise AssertionError(f"{guest.label} has no quota")
        await self.timed(FULL, self._everything())
        self.calls()
        await self.adapter.read(self.where)
        await self.apply(changed)
        calls = self.calls()
        self.reads = calls["getAllDomainStats"] + calls["schedulerParameters"]
        self.others = sum(calls.values()) - self.reads

    async def _everything(self) -> None:
        """Read until every limit has been read back once."""
        for _ in range(self.settings.check_every):
            await self.adapter.read(self.where)


def print_figures(rounds: Sequence[Bench], figures: Figures) -> None:
    """Print the measured figures with their limits."""
    threads = rounds[0].settings.threads
    figures.plain("threads", threads)
    for name in (FIRST, CHANGED, FULL):
        calls, took_s = min(
            (each.took[name] for each in rounds), key=lambda pair: pair[1] / pair[0]
        )
        figures.plain(f"{name}: calls", calls)
        figures.plain(f"{name}: ms", took_s * 1e3)
        ratio = took_s / (calls * LATENCY_S / threads)
        figures.at_most(f"{name}: time / (calls x latency / threads)", ratio, ALLOWED)
    figures.plain("nothing changed: calls of a period's read", rounds[0].reads)
    figures.at_most("nothing changed: other calls", max(each.others for each in rounds), 0)


def main() -> int:
    """Print all figures; return 1 if a limit is missed."""
    reactor = asyncio_reactor()
    figures = Figures()
    rounds: list[Bench] = []
    outcomes: list[Any] = []

    async def measure() -> None:
        for _ in range(ROUNDS):
            bench = Bench(reactor)
            try:
                await bench.all()
            finally:
                for host in bench.hosts:
                    host.latency_s = 0.0
                await bench.adapter.close()
            rounds.append(bench)

    def begin() -> None:
        ensureDeferred(measure()).addBoth(outcomes.append).addBoth(lambda _: reactor.stop())

    reactor.callWhenRunning(begin)
    reactor.run()
    for outcome in outcomes:
        if outcome is not None:
            outcome.raiseException()
    print_figures(rounds, figures)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
