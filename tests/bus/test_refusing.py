"""Foreign, malformed, oversized and replayed messages are rejected, logged, and never forwarded."""

import asyncio
import json
from dataclasses import replace

import pytest
from twisted.logger import capturedLogs

from merkatd.bus.peer import LostError, MessageRefusedError, Peer
from merkatd.protocol.bus_messages import (
    FROM_DAEMON,
    VERSION,
    Beaten,
    Heartbeat,
    Hello,
    Refused,
    Welcome,
)
from merkatd.protocol.curve_keys import fresh
from merkatd.protocol.platform_messages import ActionOutcome, News, SetBids, SetSize
from merkatd.protocol.wire_format import LARGEST_BYTES, Envelope, pack, topic_of, unpack
from tests.bus.raw import Raw, readable
from tests.bus.rig import (
    CONTROLLER,
    Site,
    market,
    news,
    on_site,
    parts,
    soon,
)

BIDS = SetBids(bids={101: {"cpu": 2.0, "memory": 1.0}}, reason="more")


def test_a_replayed_message_is_rejected() -> None:
    """A message needs a new number; an identical message or an older number is rejected."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        session = (await raw.greet()).session
        envelope = Envelope(BIDS, session, 5, "first")
        assert await raw.ask(envelope) == ActionOutcome(accepted=True, why="the 1th")
        with capturedLogs() as logged:
            for number in (5, 4, 0):
                answer = await raw.ask(Envelope(BIDS, session, number, f"id {number}"))
                assert isinstance(answer, Refused)
                assert "replayed" in answer.why
        assert len(site.notes.actions) == 1
        assert any("replayed" in str(event.get("why")) for event in logged)

    on_site(story)


def test_a_session_is_valid_only_on_its_own_connection() -> None:
    """Neither another platform nor another connection of the same platform can use it."""

    async def story(site: Site) -> None:
        session = (await Raw(site, site.hub.passport(1, CONTROLLER)).greet()).session
        for platform in (1, 2):
            thief = Raw(site, site.hub.passport(platform, CONTROLLER))
            with capturedLogs() as logged:
                answer = await thief.ask(Envelope(BIDS, session, 99, "stolen"))
            assert isinstance(answer, Refused)
            assert answer.greet
            assert any("no such session" in str(event.get("why")) for event in logged)
        assert not site.notes.actions

    on_site(story)


def test_no_process_receives_another_platforms_news() -> None:
    """Subscriptions to any other topic are rejected and logged."""

    async def story(site: Site) -> None:
        spy = Raw(site, site.hub.passport(1, CONTROLLER))
        with capturedLogs() as logged:
            for topic in (b"", b"1", b"2", b"2/", b"12/", b"\0", b"x" * 1000):
                spy.listening.subscribe(topic)
            await asyncio.sleep(0.2)
            for platform in range(1, 13):
                site.hub.announce(*parts(news(platform)))
            await asyncio.sleep(0.2)
            assert not await readable(spy.listening, 0)
            spy.listening.subscribe(topic_of(1))
            await asyncio.sleep(0.2)
            for platform in range(1, 13):
                site.hub.announce(*parts(news(platform, 2)))
            data = (await soon(spy.listening.recv())).removeprefix(topic_of(1))
        assert News.joined(unpack(data, FROM_DAEMON).body, market(2)) == news(1, 2)
        assert not await readable(spy.listening, 100)
        assert any("may not subscribe" in str(event.get("what")) for event in logged)

    on_site(story, platforms=12)


def test_unknown_keys_are_rejected() -> None:
    """Unregistered keys and keys of an ended platform cannot connect."""

    async def story(site: Site) -> None:
        other = fresh()
        passport = site.hub.passport(1, CONTROLLER)
        stranger = replace(passport, public=other.public, secret=other.secret)
        over = site.hub.passport(2, CONTROLLER)
        site.hub.dismiss(2)
        for own_passport in (stranger, over):
            peer = site.peer(own_passport, answer_s=0.2, tries=1)
            with capturedLogs() as logged, pytest.raises(LostError):
                await peer.open()
            assert any("key is unknown" in str(event.get("log_format")) for event in logged)

    on_site(story)


def test_an_ended_platform_is_ignored() -> None:
    """Its messages are ignored even while it is still connected."""

    async def story(site: Site) -> None:
        peer = await site.join(1, answer_s=0.2, tries=1)
        site.hub.dismiss(1)
        with pytest.raises(LostError):
            await peer.ask(BIDS)
        assert not site.notes.actions

    on_site(story)


def test_nothing_is_kept_of_an_ended_platform() -> None:
    """Rates, traffic and warnings are removed, because a daemon sees many platforms."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        with capturedLogs() as logged:
            raw.listening.subscribe(b"2")
            assert isinstance(await raw.ask(Envelope(BIDS, "no session", 1, "a")), Refused)
            while not any("may not subscribe" in str(event.get("what")) for event in logged):
                await asyncio.sleep(0.01)
        assert site.hub._warnings._left
        site.hub.dismiss(1)
        for kept in (site.hub._rates, site.hub._traffic, site.hub._warnings):
            assert not kept._left

    on_site(story)


def test_only_processes_with_known_roles_are_greeted() -> None:
    """A process with an unknown role is rejected."""

    async def story(site: Site) -> None:
        peer = site.peer(replace(site.hub.passport(1, CONTROLLER), role="other"))
        with pytest.raises(MessageRefusedError, match="no process 'other'"):
            await peer.open()

    on_site(story)


def test_malformed_messages_are_rejected_and_logged() -> None:
    """Their sender can continue with valid messages."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        session = (await raw.greet()).session
        hostile = (b"", b"\xff\xfe", b"{}", b"[" * 50_000, b"x" * (LARGEST_BYTES + 1))
        with capturedLogs() as logged:
            for data in hostile:
                assert isinstance(await raw.ask(data), Refused)
            await raw.socket.send_multipart([b"two", b"parts"])
            assert await raw.ask(Envelope(Heartbeat(), session, 2)) == Beaten(published=0, priced=0)
        assert (
            sum("Refused" in str(event.get("log_format")) for event in logged) == len(hostile) + 1
        )

    on_site(story)


def test_an_enormous_message_costs_only_its_connection() -> None:
    """The daemon never has the whole message in memory."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        other = await site.join(2)
        await raw.socket.send(b"x" * (64 << 20))
        assert await soon(other.ask(Heartbeat())) == Beaten(published=0, priced=0)
        assert isinstance(await site.join(1), Peer)
        while not await readable(raw.socket, 50):
            await raw.socket.send(pack(Envelope(Hello(role=CONTROLLER), number=1)))
        # This is the first answer on the new connection; the old one lost its answers.
        assert isinstance(unpack(await raw.socket.recv(), FROM_DAEMON).body, Welcome)

    on_site(story)


def test_traffic_is_encrypted() -> None:
    """An observer of all bytes sees neither the content nor the secret."""

    async def story(site: Site) -> None:
        seen = bytearray()
        passport = site.hub.passport(1, CONTROLLER)
        host, port = passport.asking.removeprefix("tcp://").split(":")

        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(4096):
                seen.extend(data)
                writer.write(data)
            writer.close()

        async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there = await asyncio.open_connection(host, int(port))
            await asyncio.gather(carry(reader, there[1]), carry(there[0], writer))

        server = await asyncio.start_server(between, "127.0.0.1", 0)
        site.stack.callback(server.close)
        number = server.sockets[0].getsockname()[1]
        peer = site.peer(replace(passport, asking=f"tcp://127.0.0.1:{number}"))
        await peer.open()
        await peer.ask(SetSize(cluster="treasure", count=1))
        assert b"CURVE" in seen
        assert b"treasure" not in seen
        assert passport.secret.encode() not in seen
        await peer.close()
        await asyncio.sleep(0.05)

    on_site(story)


def test_the_passport_is_plain_json() -> None:
    """Controllers in other languages can read it."""

    async def story(site: Site) -> None:
        passport = site.hub.passport(1, CONTROLLER)
        assert set(json.loads(passport.written())) >= {"asking", "listening", "daemon", "secret"}

    on_site(story)


def test_another_protocol_version_is_rejected_at_once() -> None:
    """The daemon rejects and logs it, and a process reports the daemon's version."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        packed = pack(Envelope(Hello(role=CONTROLLER), number=1)).replace(
            b'"v":%d' % VERSION, b'"v":1'
        )
        with capturedLogs() as logged:
            answer = await raw.ask(packed)
        assert answer == Refused(why=f"speaks version 1; expected version {VERSION}")
        assert any("version 1" in str(event.get("why")) for event in logged)

        real = site.hub._door.answer

        async def answer_as_version_1(route: bytes, data: bytes) -> None:
            await real(route, data.replace(b'"v":%d' % VERSION, b'"v":1'))

        site.hub._door.answer = answer_as_version_1  # type: ignore[method-assign]
        peer = site.peer(site.hub.passport(2, CONTROLLER))
        with pytest.raises(
            MessageRefusedError, match=f"the daemon speaks version 1; expected version {VERSION}"
        ):
            await peer.open()

    on_site(story)
