"""Large messages of one platform leave the event loop to others."""

import asyncio

import pytest

from merkatd.bus import hub as hubs
from merkatd.protocol.bus_messages import TO_DAEMON, Remember
from merkatd.protocol.wire_format import Envelope, pack, unpack
from tests.bus.raw import Raw
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
