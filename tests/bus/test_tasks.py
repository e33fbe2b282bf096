"""No message ends a task of the bus, and a task that fails is restarted."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from twisted.logger import capturedLogs

from merkatd.protocol.bus_messages import TO_DAEMON, VERSION, Hello, Refused
from merkatd.protocol.platform_messages import ActionOutcome, SetBids
from merkatd.protocol.wire_format import Envelope, MalformedError, unpack
from tests.bus.raw import Raw
from tests.bus.rig import CONTROLLER, Site, on_site

BIDS = SetBids(bids={101: {"cpu": 2.0, "memory": 1.0}}, reason="more")


def action_json(session: str, number: int, **parts: str) -> bytes:
    """Return an action as JSON that escapes all non-ASCII characters."""
    body = {"bids": {"101": {"cpu": 2.0}}, "reason": parts.get("reason", "")}
    message = {
        "v": VERSION,
        "kind": "set_bids",
        "session": session,
        "number": number,
        "id": parts.get("id", "an id"),
        "body": body,
    }
    return json.dumps(message).encode()


@pytest.mark.parametrize(
    "parts", [{"id": "\ud800"}, {"reason": "a\udfffb"}, {"id": "\udc00\ud800"}]
)
def test_a_lone_surrogate_is_rejected(parts: dict[str, str]) -> None:
    """It is rejected in ids and texts; the next message is answered."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        session = (await raw.greet()).session
        answer = await raw.ask(action_json(session, 2, **parts))
        assert isinstance(answer, Refused)
        assert "lone surrogate" in answer.why
        assert await raw.ask(Envelope(BIDS, session, 3, "next")) == ActionOutcome(True, "the 1th")
        assert site.hub.tasks.ended == 0

    on_site(story)


def test_a_pair_of_surrogates_is_a_character() -> None:
    """A valid pair is accepted, because the text can be sent on."""
    envelope = unpack(action_json("s", 1, id="\N{GRINNING FACE}"), TO_DAEMON)
    assert envelope.id == "\N{GRINNING FACE}"


def test_raw_surrogates_are_rejected() -> None:
    """Surrogates as raw bytes are rejected too."""
    with pytest.raises(MalformedError):
        unpack(action_json("s", 1, id="X").replace(b"X", b"\xed\xa0\x80"), TO_DAEMON)


def failing_once(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same call, which fails the first time."""
    failed: list[bool] = []

    def first_fails(*given: Any, **named: Any) -> Any:
        if not failed:
            failed.append(True)
            raise ZeroDivisionError("a fault")
        return call(*given, **named)

    return first_fails


def test_a_failed_server_task_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The failure is logged and counted, and later messages are answered."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        session = (await raw.greet()).session
        door = site.hub._door
        monkeypatch.setattr(door, "answer", failing_once(door.answer))
        with capturedLogs() as logged:
            await raw.socket.send(action_json(session, 2, id="first"))
            while site.hub.tasks.ended == 0:
                await asyncio.sleep(0.01)
        assert any("server of platform 1" in str(event.get("name")) for event in logged)
        for number in (3, 4):
            answer = await raw.ask(Envelope(BIDS, session, number, "first"))
            assert isinstance(answer, ActionOutcome)
        assert site.hub.tasks.ended == 1

    on_site(story)


@pytest.mark.parametrize("task", ["receiver", "connection filter"])
def test_other_messages_arrive_after_a_fault(monkeypatch: pytest.MonkeyPatch, task: str) -> None:
    """Faults in the receiver and in the connection filter affect one message only."""

    async def story(site: Site) -> None:
        allowing = site.hub._door.allowing
        name = {"receiver": "platform_of", "connection filter": "_verdict"}[task]
        monkeypatch.setattr(allowing, name, failing_once(getattr(allowing, name)))
        first = Raw(site, site.hub.passport(1, CONTROLLER))
        await first.socket.send(b"anything")
        await asyncio.sleep(0.3)
        second = Raw(site, site.hub.passport(2, CONTROLLER))
        welcome = await second.ask(Envelope(Hello(role=CONTROLLER), number=1))
        assert welcome.assignment.platform == 2

    on_site(story)
