"""Shared parts of the bus tests: platforms, a manager that records requests, an event loop."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import fields, replace
from typing import Any

from merkatd.bus.hub import Hub
from merkatd.bus.peer import Peer
from merkatd.bus.settings import BusSettings
from merkatd.bus.socket_paths import LOOPBACK
from merkatd.protocol.curve_keys import Passport, fresh
from merkatd.protocol.platform_messages import (
    Action,
    ActionOutcome,
    Assignment,
    ClusterTerms,
    MarketNow,
    MonitorTerms,
    News,
    PlatformStatus,
    VmNow,
)

PATIENCE_S = 60.0
CONTROLLER, MONITOR = "controller", "monitor-0"
MARKET = "default"
ROLES = frozenset({CONTROLLER, MONITOR})


def assignment(platform: int = 1, controller: str = "best_effort", **others: Any) -> Assignment:
    """Return a platform with one virtual cluster."""
    terms = ClusterTerms(
        name="workers",
        least=1,
        most=4,
        floor={"cpu": 10.0, "memory": 64.0},
        ceiling={"cpu": 100.0, "memory": 512.0},
    )
    return Assignment(
        platform=platform,
        name=f"platform {platform}",
        owner=2,
        market=MARKET,
        controller=controller,
        parameters={},
        clusters=(terms,),
        deadline_s=None,
        ideal_s=None,
        performance=None,
        started_s=1_000.0,
        interval_s=60.0,
        budget=100.0,
        replenishment=0.0,
        replenishment_s=3_600.0,
        **others,
    )


def watched(assignment: Assignment, monitor: str, **parameters: Any) -> Assignment:
    """Return the same platform with a monitor for its cluster."""
    (terms,) = assignment.clusters
    return replace(
        assignment,
        clusters=(replace(terms, monitor=MonitorTerms(kind=monitor, parameters=parameters)),),
    )


def news(platform: int = 1, period: int = 1, **others: Any) -> News:
    """Return the news of one running VM after a period."""
    vm = VmNow(
        vm=100 + platform,
        cluster="workers",
        state="running",
        bid={"cpu": 1.0, "memory": 1.0},
        allocation={"cpu": 50.0, "memory": 256.0},
    )
    known: dict[str, Any] = {
        "platform": platform,
        "period": period,
        "at_s": 1_000.0 + 60.0 * period,
        "state": "running",
        "vms": (vm,),
        "balance": 100.0,
        "budget": 100.0,
        "replenishment": 0.0,
        "deadline_s": None,
        "performance": None,
        "sizes": {"workers": 1},
    }
    own = {name: value for name, value in others.items() if name not in _OF_THE_MARKET}
    of_market = {name: value for name, value in others.items() if name in _OF_THE_MARKET}
    return News(**known | own, market=market(period, **of_market))


def parts(*latest: News) -> tuple[list[MarketNow], list[PlatformStatus]]:
    """Return news as they are announced: the markets, and the status of each platform."""
    own = [
        PlatformStatus(
            **{field.name: getattr(news, field.name) for field in fields(PlatformStatus)}
        )
        for news in latest
    ]
    return list({news.market.name: news.market for news in latest}.values()), own


_OF_THE_MARKET = {"next_s", "prices", "capacity", "reserve", "past"}


def market(period: int = 1, **others: Any) -> MarketNow:
    """Return a market with much capacity after a period."""
    at_s = 1_000.0 + 60.0 * period
    prices = others.get("prices", {"cpu": 0.01, "memory": 0.001})
    known: dict[str, Any] = {
        "name": MARKET,
        "period": period,
        "at_s": at_s,
        "next_s": at_s + 60.0,
        "prices": prices,
        "capacity": dict.fromkeys(prices, 1e6),
        "reserve": dict.fromkeys(prices, 0.0),
        "past": {name: (price,) for name, price in prices.items()},
    }
    return MarketNow(**known | others)


class Notes:
    """A manager of platforms that accepts and records everything."""

    def __init__(self) -> None:
        self.actions: list[tuple[int, str, Action]] = []
        self.taken: dict[str, ActionOutcome] = {}
        self.memories: dict[int, Any] = {}
        self.ends: list[tuple[int, str, bool]] = []
        self.monitor_ends: list[tuple[int, int, str]] = []
        self.before: Callable[[int], Coroutine[Any, Any, None]] | None = None
        """What each action waits for, by platform."""

    async def act(self, platform: int, action_id: str, action: Action) -> ActionOutcome:
        """Record the action once."""
        if self.before is not None:
            await self.before(platform)
        if action_id not in self.taken:
            self.actions.append((platform, action_id, action))
            self.taken[action_id] = ActionOutcome(accepted=True, why=f"the {len(self.actions)}th")
        return self.taken[action_id]

    async def remember(self, platform: int, memory: Any) -> None:
        """Record the memory."""
        self.memories[platform] = memory

    async def ended(self, platform: int, why: str, *, final: bool) -> None:
        """Record the end of a controller."""
        self.ends.append((platform, why, final))

    async def monitor_ended(self, platform: int, row: int, why: str) -> None:
        """Record the end of a monitor."""
        self.monitor_ends.append((platform, row, why))


class Site:
    """A hub with some platforms, and peers that are closed with it."""

    def __init__(self, stack: AsyncExitStack, platforms: int = 2, **settings: Any) -> None:
        self.notes = Notes()
        self.stack = stack
        self.hub = Hub(
            fresh(), self.notes, time.monotonic, replace(BusSettings(endpoint=LOOPBACK), **settings)
        )
        stack.callback(self.hub.close)
        for platform in range(1, platforms + 1):
            self.hub.admit(assignment(platform), ROLES)

    def peer(self, passport: Passport, **options: Any) -> Peer:
        """Return a peer with this passport that has not greeted yet."""
        peer = Peer(passport, **options)
        self.stack.push_async_callback(peer.close)
        return peer

    async def join(self, platform: int = 1, role: str = CONTROLLER, **options: Any) -> Peer:
        """Return a process of a platform that has greeted."""
        peer = self.peer(self.hub.passport(platform, role), **options)
        await peer.open()
        return peer


def on_site(
    story: Callable[[Site], Coroutine[Any, Any, None]], platforms: int = 2, **settings: Any
) -> None:
    """Run a story with a hub on an event loop of its own."""

    async def played() -> None:
        async with asyncio.timeout(PATIENCE_S), AsyncExitStack() as stack:
            await story(Site(stack, platforms, **settings))

    asyncio.run(played())


async def until(met: Callable[[], object], what: str) -> None:
    """Wait for a condition; raise AssertionError after the limit."""
    ending_s = time.monotonic() + PATIENCE_S
    while not met():
        assert time.monotonic() < ending_s, f"{what}: not met within {PATIENCE_S:g} s"
        await asyncio.sleep(0.005)


async def soon(wanted: Awaitable[Any], limit_s: float = 30.0) -> Any:
    """Return the result, or raise TimeoutError after the limit."""
    return await asyncio.wait_for(wanted, limit_s)
