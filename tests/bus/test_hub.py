"""The bus over real sockets: everybody is answered, and nobody reaches further than they may."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import zmq
import zmq.asyncio
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs

from merkatd.bus.keys import Passport, fresh
from merkatd.bus.messages import (
    FROM_DAEMON,
    Beat,
    Beaten,
    Hello,
    Measured,
    Refused,
    Remember,
    Welcome,
)
from merkatd.bus.peer import LostError, Peer, RefusedError
from merkatd.bus.wire import LARGEST_BYTES, Envelope, pack, topic_of, unpack
from merkatd.platforms.ports import News, Outcome, SetBids, SetSize, Suspend
from tests.bus.rig import (
    CONTROLLER,
    MONITOR,
    Site,
    assignment,
    market,
    news,
    on_site,
    parts,
    soon,
    until,
)

BIDS = SetBids(bids={101: {"cpu": 2.0, "memory": 1.0}}, reason="more")


class Raw:
    """A connection with a platform's keys that says any bytes it likes."""

    def __init__(self, site: Site, passport: Passport) -> None:
        self.context = zmq.asyncio.Context()
        site.stack.callback(self.close)
        self.socket = self.context.socket(zmq.DEALER)
        self.listening = self.context.socket(zmq.SUB)
        for one in (self.socket, self.listening):
            one.set(zmq.CURVE_SERVERKEY, passport.daemon.encode())
            one.set(zmq.CURVE_PUBLICKEY, passport.public.encode())
            one.set(zmq.CURVE_SECRETKEY, passport.secret.encode())
        self.socket.connect(passport.asking)
        self.listening.connect(passport.listening)

    def close(self) -> None:
        """Let go."""
        self.socket.close(0)
        self.listening.close(0)
        self.context.term()

    async def ask(self, data: bytes | Envelope) -> Any:
        """The answer's body."""
        await self.socket.send(pack(data) if isinstance(data, Envelope) else data)
        return unpack(await soon(self.socket.recv()), FROM_DAEMON).body

    async def greeted(self, role: str = CONTROLLER) -> Welcome:
        """A session of its own."""
        welcome = await self.ask(Envelope(Hello(role=role), number=1))
        assert isinstance(welcome, Welcome)
        return welcome


async def _readable(socket: zmq.asyncio.Socket, wait_ms: int) -> bool:
    found: Any = await socket.poll(wait_ms)  # its type is that of a poller
    return bool(found)


def test_an_action_reaches_the_manager_and_its_answer_the_controller() -> None:
    """As it was said, and for the platform of who said it."""

    async def story(site: Site) -> None:
        peer = await site.joined(2)
        assert peer.welcome is not None
        assert peer.welcome.assignment == assignment(2)
        assert await peer.ask(BIDS) == Outcome(accepted=True, why="the 1th")
        ((platform, _, action),) = site.notes.actions
        assert (platform, action) == (2, BIDS)

    on_site(story)


def test_each_platform_hears_its_own_news_alone() -> None:
    """In order; monitors hear the prices, which are for all in a market."""

    async def story(site: Site) -> None:
        peers = {
            (platform, role): await site.joined(platform, role)
            for platform in (1, 2)
            for role in (CONTROLLER, MONITOR)
        }
        for (platform, _), peer in peers.items():
            await _listening(site, peer, platform)
        heard: dict[Any, list[Any]] = {who: [] for who in peers}

        async def listen(who: Any) -> None:
            async for one in peers[who].news():
                if not isinstance(one, Measured) and one.period:
                    heard[who].append(one)

        tasks = [asyncio.ensure_future(listen(who)) for who in peers]
        for period in range(1, 6):
            site.hub.announce(*parts(news(1, period), news(2, period)))
            await _all_heard(heard.values(), period)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for (platform, role), all_heard in heard.items():
            for period, one in enumerate(all_heard, start=1):
                assert one == (news(platform, period) if role == CONTROLLER else market(period))
            assert len(all_heard) == 5

    on_site(story)


async def _all_heard(heard: Iterable[list[Any]], number: int) -> None:
    await until(lambda: min(map(len, heard)) >= number, "the news")


async def _listening(site: Site, peer: Peer, platform: int = 1) -> None:
    """Until a peer is let listen, which libzmq does in its own time."""
    while peer.waiting() is None:
        site.hub.announce(*parts(news(platform, 0)))
        await asyncio.sleep(0.01)
    # What was on its way has come.
    await asyncio.sleep(0.05)
    while peer.waiting() is not None:
        pass


def test_what_a_monitor_sees_reaches_its_controller() -> None:
    """Through the daemon, under the monitor's own platform."""

    async def story(site: Site) -> None:
        controller = await site.joined(1)
        monitor = await site.joined(1, MONITOR)
        await _listening(site, controller)
        told = Measured(cluster="workers", at_s=5.0, values={"iteration_s": 2.5})
        await monitor.ask(told)
        assert await soon(anext(controller.news())) == told

    on_site(story)


def test_who_comes_late_is_told_the_last_news() -> None:
    """And what was remembered for it."""

    async def story(site: Site) -> None:
        first = await site.joined(1)
        await first.ask(Remember(memory={"seen": [1, 2]}))
        site.hub.announce(*parts(news(1, 7)))
        await first.close()
        second = await site.joined(1)
        assert second.welcome is not None
        assert second.welcome.latest.news == news(1, 7)
        assert second.welcome.assignment.memory == {"seen": [1, 2]} == site.notes.memories[1]

    on_site(story)


def test_after_a_listener_is_gone_the_next_is_heard() -> None:
    """ZeroMQ takes back the subscriptions of one that was killed; nobody has said so."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        await raw.greeted()
        raw.listening.subscribe(topic_of(1))
        for period in range(1, 200):
            site.hub.announce(*parts(news(1, period)))
            if await _readable(raw.listening, 20):
                break
        raw.listening.close(0)
        second = await site.joined(2)
        listening = second.news()
        site.hub.announce(*parts(news(2, 5)))
        assert await soon(anext(listening)) == news(2, 5)

    on_site(story, beat_s=3600.0)


def test_news_that_were_missed_are_found_by_the_next_beat() -> None:
    """Published before anybody was let listen, which is lost for certain."""

    async def story(site: Site) -> None:
        peer = await site.joined(1)
        # Whatever is published now reaches nobody.
        site.hub._door.publish = lambda *_: None  # type: ignore[method-assign]
        site.hub.announce(*parts(news(1, 3)))
        assert await soon(anext(peer.news())) == news(1, 3)

    on_site(story, beat_s=0.05)


def test_a_message_that_was_said_before_is_refused() -> None:
    """To the byte the same, or with any number that is not a new one."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        session = (await raw.greeted()).session
        said = Envelope(BIDS, session, 5, "first")
        assert await raw.ask(said) == Outcome(accepted=True, why="the 1th")
        with capturedLogs() as logged:
            for number in (5, 4, 0):
                answer = await raw.ask(Envelope(BIDS, session, number, f"id {number}"))
                assert isinstance(answer, Refused)
                assert "replayed" in answer.why
        assert len(site.notes.actions) == 1
        assert any("replayed" in str(one.get("why")) for one in logged)

    on_site(story)


def test_an_action_asked_for_again_is_done_once() -> None:
    """With its id, in a new message: its answer had been lost."""

    async def story(site: Site) -> None:
        peer = await site.joined(1)
        answers = [await peer.ask(Suspend(reason="dear"), "the same") for _ in range(3)]
        assert len(set(answers)) == len(site.notes.actions) == 1

    on_site(story)


def test_a_session_is_worth_nothing_to_anybody_else() -> None:
    """Neither to another platform nor on another connection of its own."""

    async def story(site: Site) -> None:
        session = (await Raw(site, site.hub.passport(1, CONTROLLER)).greeted()).session
        for platform in (1, 2):
            thief = Raw(site, site.hub.passport(platform, CONTROLLER))
            with capturedLogs() as logged:
                answer = await thief.ask(Envelope(BIDS, session, 99, "stolen"))
            assert isinstance(answer, Refused)
            assert answer.greet
            assert any("no such session" in str(one.get("why")) for one in logged)
        assert not site.notes.actions

    on_site(story)


def test_nobody_can_listen_to_another_platform() -> None:
    """Whatever topic they name; the wish is logged."""

    async def story(site: Site) -> None:
        spy = Raw(site, site.hub.passport(1, CONTROLLER))
        with capturedLogs() as logged:
            for topic in (b"", b"1", b"2", b"2/", b"12/", b"\0", b"x" * 1000):
                spy.listening.subscribe(topic)
            await asyncio.sleep(0.2)
            for platform in range(1, 13):
                site.hub.announce(*parts(news(platform)))
            await asyncio.sleep(0.2)
            assert not await _readable(spy.listening, 0)
            spy.listening.subscribe(topic_of(1))
            await asyncio.sleep(0.2)
            for platform in range(1, 13):
                site.hub.announce(*parts(news(platform, 2)))
            data = (await soon(spy.listening.recv())).removeprefix(topic_of(1))
        assert News.joined(unpack(data, FROM_DAEMON).body, market(2)) == news(1, 2)
        assert not await _readable(spy.listening, 100)
        assert any("not for it" in str(one.get("what")) for one in logged)

    on_site(story, platforms=12)


def test_strangers_are_not_let_in() -> None:
    """With keys of nobody's, or of a platform that is over."""

    async def story(site: Site) -> None:
        other = fresh()
        passport = site.hub.passport(1, CONTROLLER)
        stranger = replace(passport, public=other.public, secret=other.secret)
        over = site.hub.passport(2, CONTROLLER)
        site.hub.dismiss(2)
        with capturedLogs() as logged:
            for one in (stranger, over):
                peer = site.peer(one, answer_s=0.2, tries=1)
                with pytest.raises(LostError):
                    await peer.open()
        assert any("stranger" in str(one.get("log_format")) for one in logged)

    on_site(story)


def test_a_platform_that_is_over_is_heard_no_more() -> None:
    """Though it is still connected."""

    async def story(site: Site) -> None:
        peer = await site.joined(1, answer_s=0.2, tries=1)
        site.hub.dismiss(1)
        with pytest.raises(LostError):
            await peer.ask(BIDS)
        assert not site.notes.actions

    on_site(story)


def test_only_the_processes_of_a_platform_are_greeted() -> None:
    """By their roles."""

    async def story(site: Site) -> None:
        peer = site.peer(replace(site.hub.passport(1, CONTROLLER), role="other"))
        with pytest.raises(RefusedError, match="no process 'other'"):
            await peer.open()

    on_site(story)


def test_what_is_malformed_is_refused_logged_and_forgotten() -> None:
    """Who sent it can go on."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        session = (await raw.greeted()).session
        hostile = (b"", b"\xff\xfe", b"{}", b"[" * 50_000, b"x" * (LARGEST_BYTES + 1))
        with capturedLogs() as logged:
            for data in hostile:
                assert isinstance(await raw.ask(data), Refused)
            await raw.socket.send_multipart([b"two", b"parts"])
            assert await raw.ask(Envelope(Beat(), session, 2)) == Beaten(published=0, priced=0)
        assert sum("Refused" in str(one.get("log_format")) for one in logged) == len(hostile) + 1

    on_site(story)


def test_an_enormous_message_costs_only_the_connection_that_it_came_by() -> None:
    """It never comes to be in memory as a whole."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        other = await site.joined(2)
        await raw.socket.send(b"x" * (64 << 20))
        assert await soon(other.ask(Beat())) == Beaten(published=0, priced=0)
        assert isinstance(await site.joined(1), Peer)

    on_site(story)


def test_a_flood_from_one_platform_holds_up_nobody_else() -> None:
    """It is thrown away beyond what a platform may say."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        session = (await raw.greeted()).session
        other = await site.joined(2)
        for number in range(2, 2_000):
            await raw.socket.send(pack(Envelope(BIDS, session, number, f"{number}")))
        assert await soon(other.ask(Beat()), 2.0) == Beaten(published=0, priced=0)
        await asyncio.sleep(0.2)
        assert len(site.notes.actions) < 250

    on_site(story)


def test_a_platform_whose_wishes_take_long_holds_up_itself_alone() -> None:
    """And may not have any number of them waiting."""

    async def story(site: Site) -> None:
        never: Deferred[None] = Deferred()

        async def hold_up_the_first(platform: int) -> None:
            if platform == 1:
                await never

        site.notes.before = hold_up_the_first
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        session = (await raw.greeted()).session
        answers = []
        for number in range(2, 22):
            await raw.socket.send(pack(Envelope(BIDS, session, number, f"{number}")))
        while await _readable(raw.socket, 300):
            answers.append(unpack(await raw.socket.recv(), FROM_DAEMON).body)
        # One is being done and sixteen wait.
        assert [type(one) for one in answers] == [Refused] * 3
        other = await site.joined(2)
        assert isinstance(await soon(other.ask(BIDS)), Outcome)

    on_site(story)


def test_a_listener_that_does_not_read_holds_up_nobody() -> None:
    """Neither the daemon nor the others; when it reads again it gets on with the newest."""

    async def story(site: Site) -> None:
        slow = Raw(site, site.hub.passport(1, CONTROLLER))
        slow.listening.subscribe(topic_of(1))
        quick = await site.joined(2)
        await _listening(site, quick, 2)
        large = news(1, 1, sizes={f"{row:040}": row for row in range(1_000)})
        for _ in range(500):  # far more than all buffers between them hold
            site.hub.announce(*parts(large))
        site.hub.announce(*parts(news(2, 9)))
        heard = await soon(anext(quick.news()))
        assert isinstance(heard, News)
        assert heard.period == 9

    on_site(story)


def test_a_peer_finds_a_daemon_that_was_started_anew() -> None:
    """With the same keys at the same place; its session is a new one, its action is done once."""

    async def story(site: Site) -> None:
        passport = site.hub.passport(1, CONTROLLER)
        peer = await site.joined(1, answer_s=0.5)
        await peer.ask(BIDS, "one")
        # As after a restart: no session is known.
        site.hub._sessions.close(1)
        assert passport == site.hub.passport(1, CONTROLLER)
        assert await peer.ask(BIDS, "one") == Outcome(accepted=True, why="the 1th")
        wish = SetSize(cluster="workers", count=2)
        assert await peer.ask(wish) == Outcome(accepted=True, why="the 2th")

    on_site(story)


def test_what_fails_in_the_manager_is_said_and_can_be_asked_for_again() -> None:
    """The others don't notice."""

    async def story(site: Site) -> None:
        async def fail(platform: int) -> None:
            if platform == 1:
                raise OSError("no database")

        site.notes.before = fail
        one, two = await site.joined(1), await site.joined(2)
        with capturedLogs() as logged, pytest.raises(RefusedError, match="ask again"):
            await one.ask(BIDS, "again")
        assert any("was not done" in str(event.get("log_format")) for event in logged)
        assert isinstance(await two.ask(BIDS), Outcome)
        site.notes.before = None
        assert isinstance(await one.ask(BIDS, "again"), Outcome)

    on_site(story)


def test_nothing_on_the_wire_can_be_read() -> None:
    """Not even by who sees every byte."""

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


def test_the_passport_is_json_that_others_could_read() -> None:
    """For whoever writes a controller in another language."""

    async def story(site: Site) -> None:
        passport = site.hub.passport(1, CONTROLLER)
        assert set(json.loads(passport.written())) >= {"asking", "listening", "daemon", "secret"}

    on_site(story)


def test_who_speaks_another_version_is_told_so_at_once() -> None:
    """The daemon refuses and logs it; a process says which one is to be started anew."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        said = pack(Envelope(Hello(role=CONTROLLER), number=1)).replace(b'"v":2', b'"v":1')
        with capturedLogs() as logged:
            answer = await raw.ask(said)
        assert answer == Refused(why="speaks version 1, here it is 2")
        assert any("version 1" in str(one.get("why")) for one in logged)

        real = site.hub._door.answer

        async def as_before(route: bytes, data: bytes) -> None:
            await real(route, data.replace(b'"v":2', b'"v":1'))

        site.hub._door.answer = as_before  # type: ignore[method-assign]
        peer = site.peer(site.hub.passport(2, CONTROLLER))
        with pytest.raises(RefusedError, match="the daemon speaks version 1, here it is 2"):
            await peer.open()

    on_site(story)
