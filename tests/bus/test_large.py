"""Large messages of one platform leave the event loop to others."""

import asyncio
import time

import pytest
import zmq

from merkatd.bus import hub as hubs
from merkatd.protocol.bus_messages import TO_DAEMON, Beaten, Heartbeat, Remember
from merkatd.protocol.wire_format import Envelope, pack, unpack
from tests.bus.raw import Raw, readable
from tests.bus.rig import CONTROLLER, Site, on_site

MESSAGES = 20
VALUES = 8_000
"""Together 24 KiB in a message."""


def test_the_event_loop_serves_others_between_large_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between any two of many large messages, other tasks get a turn."""
    taken = 0
    turns: set[int] = set()

    def counted(data: bytes, *_: object) -> Envelope:
        nonlocal taken
        taken += 1
        return unpack(data, TO_DAEMON)

    async def watch() -> None:
        while True:
            turns.add(taken)
            await asyncio.sleep(0)

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        session = (await raw.greet()).session
        monkeypatch.setattr(hubs, "unpack", counted)
        for number in range(2, 2 + MESSAGES):
            await raw.socket.send(pack(Envelope(Remember(memory=[[]] * VALUES), session, number)))
        watching = asyncio.create_task(watch())
        for _ in range(MESSAGES):
            await raw.socket.recv()
        watching.cancel()

    on_site(story)
    assert taken == MESSAGES
    # Between any two messages other tasks had a turn.
    assert set(range(1, MESSAGES)) <= turns


def test_a_message_of_many_frames_leaves_turns_to_others() -> None:
    """The limit of a message's size holds for each frame only."""
    frames, part = 100_000, 0.25

    async def story(site: Site) -> None:
        raw, other = Raw(site, site.hub.passport(1, CONTROLLER)), await site.join(2)
        await raw.greet()
        pauses: list[float] = []

        async def watch() -> None:
            while True:
                before_s = time.perf_counter()
                await asyncio.sleep(0)
                pauses.append(time.perf_counter() - before_s)

        await raw.socket.send_multipart([b""] * frames)
        watching = asyncio.create_task(watch())
        began_s = time.perf_counter()
        # The message is read before this later one.
        await raw.socket.send(b"{}")
        await raw.socket.recv()
        watching.cancel()
        longest_s, took_s = max(pauses), time.perf_counter() - began_s
        assert longest_s < part * took_s
        assert await other.ask(Heartbeat()) == Beaten(published=0, priced=0)

    on_site(story)


def test_a_long_subscription_ends_its_connection() -> None:
    """ZeroMQ keeps each subscription until its connection ends, with fifty times its memory."""

    async def story(site: Site) -> None:
        raw, other = Raw(site, site.hub.passport(1, CONTROLLER)), await site.join(2)
        await raw.greet()
        ends = raw.listening.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            raw.listening.subscribe(b"x" * 5_000)
            assert await readable(ends, 10_000)
        finally:
            raw.listening.disable_monitor()
            ends.close()
        assert await other.ask(Heartbeat()) == Beaten(published=0, priced=0)

    on_site(story)
