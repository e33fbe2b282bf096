"""How soon an announced price reaches 200 controllers and 200 monitors, and their CPU cost.

By default the peers share two processes. With `--earnest` each is a process of its own, which
measures how fast the machine wakes 400 interpreters. With `--floor` each is a process that only
reads from libzmq: the lower bound for so many processes. The round trip is that of a heartbeat and
its answer, between the daemon and one more peer in its own process, while all others are idle.

python benchmarks/bench_bus.py [--earnest|--floor]
"""

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.support.bus_load import (
    PEERS,
    PERIODS,
    PLATFORMS,
    ROLES,
    ArrivalTimes,
    Nobody,
    assignment,
    attend,
    market,
    only_listen,
    standing,
    trips,
)
from benchmarks.support.measurement import Figures
from merkatd.bus.hub import Hub
from merkatd.bus.settings import BusSettings
from merkatd.bus.socket_paths import LOOPBACK
from merkatd.platforms.processes.supervisor import AT_ONCE
from merkatd.protocol.curve_keys import Passport, fresh

HOSTED = 2
"""Processes that the peers share, unless --earnest."""
PERIOD_S = 1.0
BETWEEN_S = 15.0
SETTLED_S = 10.0
"""Seconds between two heartbeats."""
START_LIMIT_S = 600.0


class Crowd:
    """The processes of the peers."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._running: list[subprocess.Popen[str]] = []

    def start(self, peers: list[tuple[int, Passport]]) -> None:
        """Start a process for these peers."""
        self._running.append(self._started(self._words, peers))

    @staticmethod
    def _started(words: list[str], peers: list[tuple[int, Passport]]) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, __file__, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        to_it: Any = process.stdin
        to_it.write(json.dumps([(row, passport.written()) for row, passport in peers]) + "\n")
        to_it.flush()
        return process

    def check(self) -> None:
        """Raise AssertionError if a process has ended."""
        if any(process.poll() is not None for process in self._running):
            raise AssertionError("some of the peers have ended")

    def end(self) -> None:
        """End the processes, and wait until they have ended."""
        for process in self._running:
            if process.stdin is not None:
                process.stdin.close()
        for process in self._running:
            process.wait()


async def all_there(
    board: ArrivalTimes, crowd: Crowd, peers: list[tuple[int, Passport]], count: int
) -> None:
    """Start `count` processes for the peers, a few at a time, until all have sent their greeting.

    Hundreds of interpreters that start together would leave the daemon no time for its answers; the
    daemon also starts its own processes a few at a time.
    """
    late_s = time.monotonic() + START_LIMIT_S
    begun: list[int] = []
    for row in range(count):
        crowd.start(peers[row::count])
        begun += [number for number, _ in peers[row::count]]
        await _there(board, crowd, begun, AT_ONCE * len(peers) // count, late_s)
    await _there(board, crowd, begun, 1, late_s)
    await asyncio.sleep(SETTLED_S)


async def _there(
    board: ArrivalTimes, crowd: Crowd, begun: Sequence[int], coming: int, late_s: float
) -> None:
    """Wait until fewer than `coming` of the started peers have not sent their greeting."""
    while True:
        column = board.column(ArrivalTimes.READY)
        missing = sum(not column[number] for number in begun)
        if missing < coming:
            return
        crowd.check()
        if time.monotonic() > late_s:
            raise TimeoutError(f"{missing} peers have not connected in time")
        await asyncio.sleep(0.02)


async def round_trip(passport: Passport) -> float:
    """Return the median time of a message and its answer while all other peers are idle."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--trips", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    output, _ = await process.communicate(json.dumps(passport.written()).encode() + b"\n")
    took: list[float] = json.loads(output)
    return median(took)


async def reached(hub: Hub, board: ArrivalTimes) -> tuple[float, float]:
    """Return median times until the last peer had the price and the last controller its news."""
    prices, standings = [], []
    for period in range(1, PERIODS + 1):
        await asyncio.sleep(PERIOD_S)
        latest = [standing(platform, period) for platform in range(1, PLATFORMS + 1)]
        begin = time.perf_counter()
        hub.announce([market(period)], latest)
        while time.perf_counter() - begin < PERIOD_S:
            await asyncio.sleep(PERIOD_S / 2)
        priced = board.column(ArrivalTimes.PRICE + period - 1)
        heard = board.column(ArrivalTimes.NEWS + period - 1)
        if all(priced) and sum(map(bool, heard)) >= PLATFORMS:
            prices.append(max(priced) - begin)
            standings.append(max(heard) - begin)
    if len(prices) < PERIODS:
        print(f"in {PERIODS - len(prices)} periods a peer received nothing within {PERIOD_S:g} s")
    return median(prices), median(standings)


async def measured(figures: Figures, processes: int, what: str) -> None:
    """Print all figures, with the peers in `processes` processes; `what` is their option."""
    settings = BusSettings(endpoint=LOOPBACK, messages=1e6, messages_at_once=10**6)
    hub = Hub(fresh(), Nobody(), time.monotonic, settings)
    for platform in range(1, PLATFORMS + 2):
        hub.admit(assignment(platform), frozenset(ROLES))
    passports = [
        hub.passport(platform, role) for platform in range(1, PLATFORMS + 1) for role in ROLES
    ]
    with tempfile.NamedTemporaryFile() as file:
        board = ArrivalTimes(file.name, PEERS)
        crowd = Crowd([what, file.name])
        try:
            await all_there(board, crowd, list(enumerate(passports)), processes)
            trip = await round_trip(hub.passport(PLATFORMS + 1, ROLES[0]))
            beat = median(board.column(ArrivalTimes.TRIP))
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
    if beat:
        figures.plain("a heartbeat of a peer and its answer, median, ms", beat * 1e3)
    figures.plain("until the last peer has the price, median, ms", price_s * 1e3)
    figures.plain("until the last controller has its own news too, median, ms", news_s * 1e3)
    figures.at_most("price to all / round trip, median", price_s / trip, 20)
    figures.at_most("the daemon's CPU for the peers between periods, %", spent * 100, 5)


def main(words: list[str]) -> int:
    """Print all figures, or act as the peers of one process."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if words[:1] == ["--peers"]:
        pairs = json.loads(sys.stdin.readline())
        board = ArrivalTimes(words[1], PEERS)
        asyncio.run(
            attend(
                board, [row for row, _ in pairs], [Passport.read(passport) for _, passport in pairs]
            )
        )
        return 0
    if words[:1] == ["--listeners"]:
        ((row, passport),) = json.loads(sys.stdin.readline())
        only_listen(ArrivalTimes(words[1], PEERS), row, Passport.read(passport))
        return 0
    if words == ["--trips"]:
        asyncio.run(trips(Passport.read(json.loads(sys.stdin.readline()))))
        return 0
    figures = Figures()
    processes = PEERS if words in (["--earnest"], ["--floor"]) else HOSTED
    what = "--listeners" if words == ["--floor"] else "--peers"
    asyncio.run(measured(figures, processes, what))
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
