"""Events of a real publisher cause observations, whatever happens to the publisher."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import zmq
import zmq.asyncio

from merkatd.opennebula.hook_events import Events, is_reason_to_observe
from tests.opennebula.worlds import RealTime

MATTER = [
    "EVENT STATE VM/PENDING/LCM_INIT/3 ",
    "EVENT STATE VM/ACTIVE/RUNNING/3 ",
    "EVENT STATE VM/ACTIVE/BOOT_FAILURE/3 ",
    "EVENT STATE VM/DONE/LCM_INIT/3 ",
    "EVENT STATE HOST/ERROR//7 ",
    "EVENT STATE HOST/MONITORED//7 ",
]
DO_NOT = [
    "",
    "EVENT",
    "EVENT STATE VM/ACTIVE/BOOT/3 ",
    "EVENT STATE VM/ACTIVE/PROLOG/3 ",
    "EVENT STATE IMAGE/READY//3 ",
    "EVENT STATE VM/PENDING",
    "EVENT STATE HOST",
    "EVENT API one.vm.allocate 1",
    "EVENT VM 3/PENDING/LCM_INIT ",
    "RETRY",
]


@pytest.mark.parametrize("key", MATTER)
def test_relevant_events_cause_observations(key: str) -> None:
    """VMs that appear, run, fail or end, and hosts are relevant."""
    assert is_reason_to_observe(key.encode())


@pytest.mark.parametrize("key", DO_NOT)
def test_other_events_do_not(key: str) -> None:
    """These are intermediate states, other objects, and garbage."""
    assert not is_reason_to_observe(key.encode())
    assert not is_reason_to_observe(b"\xff\x00" + key.encode())


class Publisher:
    """A hook manager's socket."""

    def __init__(self, endpoint: str) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUB)
        self._socket.set(zmq.LINGER, 0)
        self._socket.bind(endpoint)

    def send(self, *frames: bytes) -> None:
        """Send one event."""
        self._socket.send_multipart(frames)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        self._context.term()


@pytest.fixture
def endpoint(tmp_path: Any) -> str:
    """Return an unused address."""
    return f"ipc://{tmp_path}/events"


@pytest.fixture
def heard(real_time: RealTime, endpoint: str) -> Iterator[list[float]]:
    """Yield the times of changes."""
    times: list[float] = []
    begun: list[Events] = []

    async def begin() -> None:
        clock = real_time.reactor
        begun.append(Events(endpoint, clock, lambda: times.append(clock.seconds()), gather_s=0.02))

    real_time.loop.run_until_complete(begin())
    yield times
    real_time.loop.run_until_complete(_stopped(begun[0]))


async def _stopped(events: Events) -> None:
    events.stop()
    await asyncio.sleep(0)


def until(time: RealTime, done: Callable[[], object], again: Callable[[], object]) -> None:
    """Wait for a condition, and repeat an action meanwhile."""

    async def wait() -> None:
        for _ in range(400):
            if done():
                return
            again()
            await asyncio.sleep(0.01)
        raise AssertionError("it never came to that")

    time.loop.run_until_complete(wait())


def _more(heard: list[float], before: int) -> bool:
    return len(heard) > before


def test_events_arrive_from_a_publisher_that_restarts(
    real_time: RealTime, endpoint: str, heard: list[float]
) -> None:
    """The order of starts does not matter, and garbage between events is skipped."""
    for _ in range(2):
        publisher = Publisher(endpoint)
        before = len(heard)
        events = [
            (b"EVENT STATE VM/", b"\xff" * 1000, b"", b"x"),
            (b"EVENT STATE VM/\xff\xfe/3",),
            (MATTER[0].encode(), b"PEhPT0s+"),
        ]

        def speak(publisher: Publisher = publisher, events: Any = events) -> None:
            for frames in events:
                publisher.send(*frames)

        until(real_time, partial(_more, heard, before), speak)
        publisher.close()


def test_many_events_are_merged(real_time: RealTime, endpoint: str, heard: list[float]) -> None:
    """A hundred VMs that start together cause one observation."""
    publisher = Publisher(endpoint)
    until(real_time, lambda: heard, lambda: publisher.send(MATTER[0].encode(), b""))
    real_time.loop.run_until_complete(asyncio.sleep(0.1))
    heard.clear()
    for vm in range(100):
        publisher.send(f"EVENT STATE VM/ACTIVE/RUNNING/{vm} ".encode(), b"")
        publisher.send(f"EVENT STATE VM/ACTIVE/BOOT/{vm} ".encode(), b"")
    until(real_time, lambda: heard, lambda: None)
    real_time.loop.run_until_complete(asyncio.sleep(0.1))
    publisher.close()
    assert 1 <= len(heard) <= 3


def test_irrelevant_events_cause_no_observation(
    real_time: RealTime, endpoint: str, heard: list[float]
) -> None:
    """Events without a subscription do not arrive."""
    publisher = Publisher(endpoint)
    until(real_time, lambda: heard, lambda: publisher.send(MATTER[0].encode(), b""))
    real_time.loop.run_until_complete(asyncio.sleep(0.1))
    heard.clear()
    for key in DO_NOT:
        publisher.send(key.encode(), b"")
    real_time.loop.run_until_complete(asyncio.sleep(0.1))
    publisher.close()
    assert heard == []
