"""How soon an announced price reaches 200 controllers and 200 monitors, and what they cost.

The peers are whole ones, with sessions, keys and beats, but share two processes: as many
interpreters as there would be in earnest would measure this machine's memory.

python benchmarks/bus.py
"""

import asyncio
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import zmq.asyncio

from benchmarks.figures import Figures
from merkatd.bus.hub import Hub
from merkatd.bus.keys import Passport, fresh
from merkatd.bus.messages import Beat
from merkatd.bus.peer import Peer
from merkatd.bus.settings import Settings
from merkatd.platforms.ports import (
    Action,
    Assignment,
    ClusterTerms,
    News,
    Outcome,
    VmNow,
)

PLATFORMS = 200
ROLES = ("controller", "monitor-0")
PROCESSES = 2
VMS = 4
TRIPS = 300
PERIODS = 30
BETWEEN_S = 15.0
SETTLED_S = 2.0


class Nobody:
    """A manager of platforms that takes everything."""

    async def act(self, platform: int, action_id: str, action: Action) -> Outcome:
        """Taken."""
        return Outcome(accepted=bool(platform and action_id and action))

    async def remember(self, platform: int, memory: Any) -> None:
        """Forgotten."""

    async def ended(self, platform: int, why: str, *, final: bool) -> None:
        """Nobody ends here."""


def assignment(platform: int) -> Assignment:
    """One cluster of a few VMs."""
    return Assignment(
        platform=platform,
        name=f"platform {platform}",
        owner=1,
        controller="best_effort",
        parameters={},
        clusters=(ClusterTerms(name="workers", least=1, most=VMS),),
        deadline_s=None,
        ideal_s=None,
        performance=None,
        started_s=0.0,
        interval_s=60.0,
        budget=1.0,
        replenishment=0.0,
        replenishment_s=3600.0,
    )


def news(platform: int, period: int) -> News:
    """What a platform is told: prices, and what each of its VMs got."""
    amounts = {"cpu": 12.5, "memory": 512.25}
    return News(
        platform=platform,
        period=period,
        at_s=60.0 * period,
        state="running",
        prices={"cpu": 0.0125, "memory": 0.0005},
        vms=tuple(
            VmNow(
                vm=platform * VMS + row,
                cluster="workers",
                state="running",
                bid=amounts,
                allocation=amounts,
            )
            for row in range(VMS)
        ),
        balance=1.0,
        deadline_s=None,
        sizes={"workers": VMS},
    )


async def attend(passports: list[Passport]) -> None:
    """Be all these peers; write when the last of them heard of each period, by the clock."""
    context = zmq.asyncio.Context()
    peers = [Peer(one, context=context) for one in passports]
    for one in peers:
        await one.open()
    heard: dict[int, list[float]] = {}

    async def listen(peer: Peer) -> None:
        async for one in peer.news():
            if isinstance(one, News):
                times = heard.setdefault(one.period, [])
                times.append(time.perf_counter())
                if len(times) == len(peers):
                    print(one.period, max(times), flush=True)

    tasks = [asyncio.ensure_future(listen(one)) for one in peers]
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for task in tasks:
        task.cancel()
    for one in peers:
        await one.close()
    context.term()


class Crowd:
    """Peers in a process of their own."""

    def __init__(self, passports: list[Passport]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--peers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        to_it: Any = self._process.stdin
        to_it.write(json.dumps([one.written() for one in passports]) + "\n")
        to_it.flush()

    async def line(self) -> str:
        """The next that it says."""
        from_it: Any = self._process.stdout
        said = str(await asyncio.get_running_loop().run_in_executor(None, from_it.readline))
        if not said:
            raise AssertionError("the peers have ended")
        return said

    def end(self) -> None:
        """End it."""
        self._process.communicate()


async def round_trips(peer: Peer) -> float:
    """The median time of one message and its answer, when nothing else goes on."""
    took = []
    for _ in range(TRIPS):
        begin = time.perf_counter()
        await peer.ask(Beat())
        took.append(time.perf_counter() - begin)
        await asyncio.sleep(0.002)
    return float(np.median(took))


async def reached(hub: Hub, crowds: list[Crowd]) -> list[float]:
    """How long it took until the last had the news, by period."""
    took = []
    for period in range(1, PERIODS + 1):
        lines = [asyncio.ensure_future(one.line()) for one in crowds]
        await asyncio.sleep(0.3)
        begin = time.perf_counter()
        for platform in range(1, PLATFORMS + 1):
            hub.announce(news(platform, period))
        ends = [float((await one).split()[1]) for one in lines]
        took.append(max(ends) - begin)
    return took


async def measured(figures: Figures) -> None:
    """All figures."""
    hub = Hub(fresh(), Nobody(), time.monotonic, Settings(messages=1e6, messages_at_once=10**6))
    for platform in range(1, PLATFORMS + 1):
        hub.admit(assignment(platform), frozenset(ROLES))
    passports = [
        hub.passport(platform, role) for platform in range(1, PLATFORMS + 1) for role in ROLES
    ]
    hub.admit(assignment(PLATFORMS + 1), frozenset(ROLES))
    crowds = [Crowd(passports[row::PROCESSES]) for row in range(PROCESSES)]
    for one in crowds:
        await one.line()
    # A process of its own for this one would measure the same and one more interpreter.
    single = Peer(hub.passport(PLATFORMS + 1, ROLES[0]))
    await single.open()
    await asyncio.sleep(SETTLED_S)
    trip = await round_trips(single)
    await single.close()
    took = await reached(hub, crowds)
    await asyncio.sleep(SETTLED_S)
    cpu, begin = time.process_time(), time.perf_counter()
    await asyncio.sleep(BETWEEN_S)
    spent = (time.process_time() - cpu) / (time.perf_counter() - begin)
    for one in crowds:
        one.end()
    hub.close()
    peers = PLATFORMS * len(ROLES)
    figures.plain("round trip of one message, median, ms", trip * 1e3)
    figures.plain(
        f"until the last of {peers} has the news, median, ms", float(np.median(took)) * 1e3
    )
    figures.at_most("news to all / round trip, median", float(np.median(took)) / trip, 20)
    figures.at_most(f"the daemon's CPU for {peers} peers between periods, %", spent * 100, 5)


def main() -> int:
    """All figures, or the peers of one process."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if "--peers" in sys.argv:
        texts = json.loads(sys.stdin.readline())
        asyncio.run(attend([Passport.read(one) for one in texts]))
        return 0
    figures = Figures()
    asyncio.run(measured(figures))
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
