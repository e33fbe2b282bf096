"""The life of a controller's or monitor's process, from its passport to SIGTERM."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from controllers.controller import Controller
from controllers.decision_times import DecisionTimes
from controllers.monitors.monitor import Monitor
from merkatd.bus.peer import Peer
from merkatd.protocol.bus_messages import Measured
from merkatd.protocol.controller_kinds import SECRET_FD
from merkatd.protocol.curve_keys import Passport, passport_of
from merkatd.protocol.platform_messages import MarketNow, News

_MOST_BYTES = 1 << 16


def take_passport() -> Passport:
    """Return the passport of this process. It can be read once, and children don't inherit it."""
    number = os.environ.pop(SECRET_FD, None)
    if number is None:
        raise ValueError(f"{SECRET_FD} is not set: only the daemon can start this program")
    with os.fdopen(int(number), "rb") as handed:
        return passport_of(handed.read(_MOST_BYTES).decode())


async def run_controller(kind: type[Controller], passport: Passport) -> None:
    """Run a controller until SIGTERM; an event in progress is finished first."""
    peer = Peer(passport)
    try:
        welcome = await peer.open()
        controller = kind(welcome.assignment, peer)
        await controller.on_start()
        times = DecisionTimes(welcome.assignment.interval_s)
        if welcome.latest.news is not None:
            times.note(welcome.latest.news, asyncio.get_running_loop().time())
            await controller.take(welcome.latest.news)
        await _until_told(peer, _controlling(controller, peer, times))
    finally:
        await peer.close()


async def _controlling(controller: Controller, peer: Peer, times: DecisionTimes) -> None:
    async with contextlib.aclosing(times.paced(_current(peer))) as events:
        async for event in events:
            taking = asyncio.ensure_future(controller.take(event))
            try:
                await asyncio.shield(taking)
            except asyncio.CancelledError:
                await taking
                raise


async def _current(peer: Peer) -> AsyncIterator[News | Measured]:
    """Yield the published events; if several news are waiting, only the newest of them."""
    async for first in peer.news():
        waiting = [first]
        while (message := peer.waiting()) is not None:
            waiting.append(message)
        newest = max(
            (row for row, message in enumerate(waiting) if isinstance(message, News)), default=-1
        )
        for row, message in enumerate(waiting):
            if isinstance(message, Measured) or (isinstance(message, News) and row == newest):
                yield message


async def run_monitor(kind: type[Monitor], passport: Passport) -> None:
    """Run a monitor until SIGTERM: look, report, wait."""
    peer = Peer(passport)
    try:
        welcome = await peer.open()
        row = int(passport.role.rpartition("-")[2])
        monitor = kind(welcome.assignment, welcome.assignment.clusters[row], peer)
        if welcome.latest.market is not None:
            await monitor.on_market(welcome.latest.market)
        await _until_told(peer, _monitoring(monitor, peer))
    finally:
        await peer.close()


async def _monitoring(monitor: Monitor, peer: Peer) -> None:
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(monitor.watch())
            both.create_task(_priced(monitor, peer))
    except BaseExceptionGroup as failed:
        # The tenant sees the last line of the log, which for a group is no error message.
        raise failed.exceptions[0] from None


async def _priced(monitor: Monitor, peer: Peer) -> None:
    async for event in peer.news():
        if isinstance(event, MarketNow):
            await monitor.on_market(event)


async def _until_told(peer: Peer, work: Coroutine[Any, Any, None]) -> None:
    """Work until SIGTERM. Raise an error if the daemon is lost or the work fails."""
    loop = asyncio.get_running_loop()
    signalled = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled.set)
    tasks = [
        asyncio.ensure_future(coroutine) for coroutine in (signalled.wait(), peer.lost(), work)
    ]
    ended, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in others:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    for task in ended:
        await task
