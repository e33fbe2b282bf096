"""Peers and messages for the benchmark of the bus.

Each peer has its own keys, connections, session and heartbeats. It writes the time at which it
received a price into shared memory, so that the measurement wakes no other process.
"""

import asyncio
import json
import mmap
import struct
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

import zmq.asyncio

from merkatd.bus.peer import Peer
from merkatd.bus.subscription import Event
from merkatd.protocol.bus_messages import Heartbeat
from merkatd.protocol.curve_keys import Passport
from merkatd.protocol.platform_messages import (
    HISTORY_PERIODS,
    Action,
    ActionOutcome,
    Assignment,
    ClusterTerms,
    MarketNow,
    News,
    PlatformStatus,
    VmNow,
)
from merkatd.protocol.wire_format import market_topic

PLATFORMS = 200
ROLES = ("controller", "monitor-0")
PEERS = PLATFORMS * len(ROLES)
PERIODS = 30
TRIPS, TRIP_S = 200, 0.02


class ArrivalTimes:
    """A table of times that all processes share: a row per peer, a column per period."""

    PRICE, NEWS, READY, TRIP = 0, PERIODS, 2 * PERIODS, 2 * PERIODS + 1
    COLUMNS = 2 * PERIODS + 2

    def __init__(self, path: str, rows: int) -> None:
        size = rows * self.COLUMNS * 8
        with open(path, "r+b") as file:  # noqa: PTH123 - avoids an import
            file.truncate(size)
            self._map = mmap.mmap(file.fileno(), size)

    def note(self, row: int, column: int, value: float) -> None:
        """Write a time."""
        struct.pack_into("d", self._map, (row * self.COLUMNS + column) * 8, value)

    def column(self, column: int) -> list[float]:
        """Return a column of all peers; 0 for peers that wrote nothing."""
        return [
            struct.unpack_from("d", self._map, (row * self.COLUMNS + column) * 8)[0]
            for row in range(PEERS)
        ]


class TimedPeer(Peer):
    """A peer that writes down when it received each period's price and its own news."""

    def __init__(self, board: ArrivalTimes, row: int, passport: Passport, context: Any) -> None:
        self._board = board
        self._row = row
        self._priced = 0
        super().__init__(passport, context=context)

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Send a message and return the answer; write down the time of a heartbeat."""
        begin = time.perf_counter()
        answer = await super().ask(body, action_id)
        if isinstance(body, Heartbeat):
            self._board.note(self._row, ArrivalTimes.TRIP, time.perf_counter() - begin)
        return answer

    def _take(self, events: Iterable[Event]) -> None:
        """Handle received messages, which are parsed and checked."""
        super()._take(events)
        market, now = self.market, time.perf_counter()
        if market is not None and market.period != self._priced:
            self._priced = market.period
            self._board.note(self._row, ArrivalTimes.PRICE + market.period - 1, now)
        for message in events:
            if isinstance(message, News):
                self._board.note(self._row, ArrivalTimes.NEWS + message.period - 1, now)


async def attend(board: ArrivalTimes, rows: Sequence[int], passports: Sequence[Passport]) -> None:
    """Act as these peers until standard input ends."""
    context = zmq.asyncio.Context()
    pairs = zip(rows, passports, strict=True)
    peers = [TimedPeer(board, row, passport, context) for row, passport in pairs]
    for peer in peers:
        await peer.open()
    for row in rows:
        board.note(row, ArrivalTimes.READY, 1.0)
    await ended()
    for peer in peers:
        await peer.close()
    context.term()


def only_listen(board: ArrivalTimes, row: int, passport: Passport) -> None:
    """Act as a subscriber that only reads: libzmq without an event loop."""
    socket: zmq.Socket[bytes] = zmq.Context().socket(zmq.SUB)
    socket.set(zmq.CURVE_SERVERKEY, passport.daemon.encode())
    socket.set(zmq.CURVE_PUBLICKEY, passport.public.encode())
    socket.set(zmq.CURVE_SECRETKEY, passport.secret.encode())
    socket.connect(passport.listening)
    socket.subscribe(market_topic(passport.market))
    board.note(row, ArrivalTimes.READY, 1.0)
    for period in range(PERIODS):
        socket.recv()
        now = time.perf_counter()
        board.note(row, ArrivalTimes.PRICE + period, now)
        board.note(row, ArrivalTimes.NEWS + period, now)
    sys.stdin.read()


async def ended() -> None:
    """Wait until the parent process closes standard input."""
    closed = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, closed.set)
    await closed.wait()


async def trips(passport: Passport) -> None:
    """Print the times of heartbeats with their answers."""
    peer = Peer(passport)
    await peer.open()
    took = []
    for _ in range(TRIPS):
        await asyncio.sleep(TRIP_S)
        begin = time.perf_counter()
        await peer.ask(Heartbeat())
        took.append(time.perf_counter() - begin)
    await peer.close()
    print(json.dumps(took), flush=True)


VMS = 4
MARKET = "default"


class Nobody:
    """A manager of platforms that accepts everything."""

    async def act(self, platform: int, action_id: str, action: Action) -> ActionOutcome:
        """Accept the action."""
        return ActionOutcome(accepted=bool(platform and action_id and action))

    async def remember(self, platform: int, memory: Any) -> None:
        """Ignore it."""

    async def ended(self, platform: int, why: str, *, final: bool) -> None:
        """Ignore it."""

    async def monitor_ended(self, platform: int, row: int, why: str) -> None:
        """Ignore it."""


def assignment(platform: int) -> Assignment:
    """Return the assignment of a platform with one small cluster."""
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
    """Return a market's message: its prices and those of past periods."""
    amounts = {"cpu": 0.0125, "memory": 0.0005}
    return MarketNow(
        name=MARKET,
        period=period,
        at_s=60.0 * period,
        next_s=60.0 * period + 60.0,
        prices=amounts,
        capacity={"cpu": 40_000.0, "memory": 1_048_576.0},
        reserve=dict.fromkeys(amounts, 0.0),
        past={name: (price,) * HISTORY_PERIODS for name, price in amounts.items()},
    )


def standing(platform: int, period: int) -> PlatformStatus:
    """Return a platform's status with the allocation of each VM."""
    amounts = {"cpu": 12.5, "memory": 512.25}
    return PlatformStatus(
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
