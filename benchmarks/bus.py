"""How soon an announced price reaches 200 controllers and 200 monitors, and what they cost.

Each of the 400 has its own keys, connections, session and beats, and notes in shared memory when
it had the price in hand, so that nobody is woken to take the time. They share two processes;
with `--earnest` each is a process of its own, which measures how fast the machine wakes 400
interpreters. The round trip is that of a beat and its answer, between the daemon and one more
such peer, in a process of its own, while all others are idle.

python benchmarks/bus.py [--earnest]
"""

import asyncio
import json
import mmap
import resource
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import zmq.asyncio

from benchmarks.figures import Figures
from merkatd.bus.hearing import Event
from merkatd.bus.hub import Hub
from merkatd.bus.keys import Passport, fresh
from merkatd.bus.messages import Beat
from merkatd.bus.peer import Peer
from merkatd.bus.settings import Settings
from merkatd.platforms.ports import (
    PAST,
    Action,
    Assignment,
    ClusterTerms,
    MarketNow,
    News,
    Outcome,
    Standing,
    VmNow,
)

PLATFORMS = 200
ROLES = ("controller", "monitor-0")
PEERS = PLATFORMS * len(ROLES)
HOSTED = 2
"""Processes that all share, unless --earnest."""
VMS = 4
TRIPS, TRIP_S = 200, 0.02
PERIODS, PERIOD_S = 30, 1.0
BETWEEN_S = 15.0
BEAT_S = 10.0
SETTLED_S = BEAT_S
START_LIMIT_S = 600.0
MARKET = "default"


class Board:
    """A table of times that all processes share: a row for each peer, a column for each period."""

    PRICE, NEWS, READY = 0, PERIODS, 2 * PERIODS
    COLUMNS = 2 * PERIODS + 1

    def __init__(self, path: str, rows: int) -> None:
        size = rows * self.COLUMNS * 8
        with open(path, "r+b") as file:  # noqa: PTH123 - nothing else is worth an import here
            file.truncate(size)
            self._map = mmap.mmap(file.fileno(), size)

    def note(self, row: int, column: int, value: float) -> None:
        """Write one down."""
        struct.pack_into("d", self._map, (row * self.COLUMNS + column) * 8, value)

    def column(self, column: int) -> list[float]:
        """What all peers wrote there; 0 where one did not."""
        return [
            struct.unpack_from("d", self._map, (row * self.COLUMNS + column) * 8)[0]
            for row in range(PEERS)
        ]


class Timed(Peer):
    """Notes when it had each period's price, and its own news, in hand."""

    def __init__(self, board: Board, row: int, passport: Passport, context: Any) -> None:
        self._board = board
        self._row = row
        self._priced = 0
        super().__init__(passport, context=context)

    def _take(self, events: Iterable[Event]) -> None:
        """As it comes from the wire, read and checked."""
        super()._take(events)
        market, now = self.market, time.perf_counter()
        if market is not None and market.period != self._priced:
            self._priced = market.period
            self._board.note(self._row, Board.PRICE + market.period - 1, now)
        for one in events:
            if isinstance(one, News):
                self._board.note(self._row, Board.NEWS + one.period - 1, now)


async def attend(board: Board, rows: Sequence[int], passports: Sequence[Passport]) -> None:
    """Be these peers until standard input ends."""
    context = zmq.asyncio.Context()
    pairs = zip(rows, passports, strict=True)
    peers = [Timed(board, row, one, context) for row, one in pairs]
    for one in peers:
        await one.open()
    for row in rows:
        board.note(row, Board.READY, 1.0)
    await ended()
    for one in peers:
        await one.close()
    context.term()


async def ended() -> None:
    """Until whoever started this process closes its standard input."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, told.set)
    await told.wait()


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
        market=MARKET,
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


def market(period: int) -> MarketNow:
    """Prices, and those of ten periods."""
    amounts = {"cpu": 0.0125, "memory": 0.0005}
    return MarketNow(
        name=MARKET,
        period=period,
        at_s=60.0 * period,
        next_s=60.0 * period + 60.0,
        prices=amounts,
        capacity={"cpu": 40_000.0, "memory": 1_048_576.0},
        reserve=dict.fromkeys(amounts, 0.0),
        past={name: (price,) * PAST for name, price in amounts.items()},
    )


def standing(platform: int, period: int) -> Standing:
    """What each of a platform's VMs got."""
    amounts = {"cpu": 12.5, "memory": 512.25}
    return Standing(
        platform=platform,
        period=period,
        at_s=60.0 * period,
        state="running",
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
        budget=1.0,
        replenishment=0.0,
        deadline_s=None,
        performance=None,
        sizes={"workers": VMS},
    )


async def trips(passport: Passport) -> None:
    """Say how long a beat and its answer take."""
    peer = Peer(passport)
    await peer.open()
    took = []
    for _ in range(TRIPS):
        await asyncio.sleep(TRIP_S)
        begin = time.perf_counter()
        await peer.ask(Beat())
        took.append(time.perf_counter() - begin)
    await peer.close()
    print(json.dumps(took), flush=True)


class Crowd:
    """The peers, in so many processes."""

    def __init__(self, board: str, passports: Sequence[Passport], processes: int) -> None:
        self._running = [
            self._started(["--peers", board], list(enumerate(passports))[row::processes])
            for row in range(processes)
        ]

    @staticmethod
    def _started(words: list[str], peers: list[tuple[int, Passport]]) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, __file__, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        to_it: Any = process.stdin
        to_it.write(json.dumps([(row, one.written()) for row, one in peers]) + "\n")
        to_it.flush()
        return process

    def check(self) -> None:
        """AssertionError where one has ended."""
        if any(one.poll() is not None for one in self._running):
            raise AssertionError("some of the peers have ended")

    def end(self) -> None:
        """End them, and wait for it."""
        for one in self._running:
            if one.stdin is not None:
                one.stdin.close()
        for one in self._running:
            one.wait()


async def ready(board: Board, crowd: Crowd) -> None:
    """Until all are connected and have greeted."""
    late_s = time.monotonic() + START_LIMIT_S
    while not all(board.column(Board.READY)):
        crowd.check()
        if time.monotonic() > late_s:
            raise TimeoutError(f"{board.column(Board.READY).count(0.0)} peers are not there")
        await asyncio.sleep(0.5)
    await asyncio.sleep(SETTLED_S)


async def round_trip(passport: Passport) -> float:
    """The median time of one message and its answer, when nothing else goes on."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--trips", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    said, _ = await process.communicate(json.dumps(passport.written()).encode() + b"\n")
    took: list[float] = json.loads(said)
    return median(took)


async def reached(hub: Hub, board: Board) -> tuple[float, float]:
    """How long until the last had the price, and the last controller its news: medians."""
    prices, standings = [], []
    for period in range(1, PERIODS + 1):
        await asyncio.sleep(PERIOD_S)
        told = [standing(platform, period) for platform in range(1, PLATFORMS + 1)]
        begin = time.perf_counter()
        hub.announce([market(period)], told)
        while time.perf_counter() - begin < PERIOD_S:
            await asyncio.sleep(PERIOD_S / 2)
        priced = board.column(Board.PRICE + period - 1)
        heard = board.column(Board.NEWS + period - 1)
        if all(priced) and sum(map(bool, heard)) == PLATFORMS:
            prices.append(max(priced) - begin)
            standings.append(max(heard) - begin)
    if len(prices) < PERIODS:
        print(f"in {PERIODS - len(prices)} periods somebody had nothing within {PERIOD_S:g} s")
    return median(prices), median(standings)


async def measured(figures: Figures, processes: int) -> None:
    """All figures, with the peers in so many processes."""
    hub = Hub(fresh(), Nobody(), time.monotonic, Settings(messages=1e6, messages_at_once=10**6))
    for platform in range(1, PLATFORMS + 2):
        hub.admit(assignment(platform), frozenset(ROLES))
    passports = [
        hub.passport(platform, role) for platform in range(1, PLATFORMS + 1) for role in ROLES
    ]
    with tempfile.NamedTemporaryFile() as file:
        board = Board(file.name, PEERS)
        crowd = Crowd(file.name, passports, processes)
        try:
            await ready(board, crowd)
            trip = await round_trip(hub.passport(PLATFORMS + 1, ROLES[0]))
            price_s, news_s = await reached(hub, board)
            await asyncio.sleep(SETTLED_S)
            cpu, begin = time.process_time(), time.perf_counter()
            await asyncio.sleep(BETWEEN_S)
            spent = (time.process_time() - cpu) / (time.perf_counter() - begin)
        finally:
            crowd.end()
            hub.close()
    where = f"{PEERS} peers, {processes} processes"
    figures.plain(f"round trip of one message, median, ms ({where})", trip * 1e3)
    figures.plain("until the last of them has the price, median, ms", price_s * 1e3)
    figures.plain("until the last controller has its own news too, median, ms", news_s * 1e3)
    figures.at_most("price to all / round trip, median", price_s / trip, 20)
    figures.at_most("the daemon's CPU for them between periods, %", spent * 100, 5)


def main(words: list[str]) -> int:
    """All figures, or the peers of one process."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if words[:1] == ["--peers"]:
        pairs = json.loads(sys.stdin.readline())
        board = Board(words[1], PEERS)
        asyncio.run(
            attend(board, [row for row, _ in pairs], [Passport.read(one) for _, one in pairs])
        )
        return 0
    if words == ["--trips"]:
        asyncio.run(trips(Passport.read(json.loads(sys.stdin.readline()))))
        return 0
    figures = Figures()
    asyncio.run(measured(figures, PEERS if words == ["--earnest"] else HOSTED))
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
