"""Slow, flooding, failing and returning processes block no others; no action is repeated."""

import asyncio

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs

from merkatd.bus.peer import MessageRefusedError
from merkatd.protocol.bus_messages import FROM_DAEMON, Beaten, Heartbeat, Refused
from merkatd.protocol.platform_messages import (
    ActionOutcome,
    MarketNow,
    News,
    SetBids,
    SetSize,
    SuspendPlatform,
)
from merkatd.protocol.wire_format import Envelope, pack, topic_of, unpack
from tests.bus.raw import Raw, await_subscription, readable
from tests.bus.rig import (
    CONTROLLER,
    MONITOR,
    Site,
    market,
    news,
    on_site,
    parts,
    soon,
    until,
)

BIDS = SetBids(bids={101: {"cpu": 2.0, "memory": 1.0}}, reason="more")


def test_a_repeated_action_is_done_once() -> None:
    """An action is sent again with its id when its answer was lost."""

    async def story(site: Site) -> None:
        peer = await site.join(1)
        answers = [await peer.ask(SuspendPlatform(reason="dear"), "the same") for _ in range(3)]
        assert len(set(answers)) == len(site.notes.actions) == 1

    on_site(story)


def test_a_flood_from_one_platform_does_not_block_others() -> None:
    """Messages beyond the platform's rate are dropped."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        session = (await raw.greet()).session
        other = await site.join(2)
        for number in range(2, 2_000):
            await raw.socket.send(pack(Envelope(BIDS, session, number, f"{number}")))
        assert await soon(other.ask(Heartbeat())) == Beaten(published=0, priced=0)
        await asyncio.sleep(0.2)
        assert len(site.notes.actions) < 250

    on_site(story)


def test_a_platform_with_slow_actions_blocks_only_itself() -> None:
    """Only a limited number of its actions may wait."""

    async def story(site: Site) -> None:
        never: Deferred[None] = Deferred()

        async def block_first_platform(platform: int) -> None:
            if platform == 1:
                await never

        site.notes.before = block_first_platform
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        session = (await raw.greet()).session
        answers = []
        for number in range(2, 22):
            await raw.socket.send(pack(Envelope(BIDS, session, number, f"{number}")))
        while await readable(raw.socket, 300):
            answers.append(unpack(await raw.socket.recv(), FROM_DAEMON).body)
        # One action runs and sixteen wait.
        assert [type(answer) for answer in answers] == [Refused] * 3
        other = await site.join(2)
        assert isinstance(await soon(other.ask(BIDS)), ActionOutcome)

    on_site(story)


def test_a_listener_that_does_not_read_blocks_no_others() -> None:
    """The daemon and other processes continue while its buffers are full."""

    async def story(site: Site) -> None:
        slow = Raw(site, site.hub.passport(1, CONTROLLER))
        slow.listening.subscribe(topic_of(1))
        quick = await site.join(2)
        await await_subscription(site, quick, 2)
        large = news(1, 1, sizes={f"{row:040}": row for row in range(1_000)})
        for _ in range(500):  # far more than all buffers in between hold
            site.hub.announce(*parts(large))
        site.hub.announce(*parts(news(2, 9)))
        heard = await soon(anext(quick.news()))
        assert isinstance(heard, News)
        assert heard.period == 9

    on_site(story)


def test_a_peer_finds_a_restarted_daemon() -> None:
    """Keys and address stay the same, the session is new, and the action is done once."""

    async def story(site: Site) -> None:
        passport = site.hub.passport(1, CONTROLLER)
        peer = await site.join(1, answer_s=0.5)
        await peer.ask(BIDS, "one")
        # As after a restart: the daemon knows no session.
        site.hub._sessions.close(1)
        assert passport == site.hub.passport(1, CONTROLLER)
        assert await peer.ask(BIDS, "one") == ActionOutcome(accepted=True, why="the 1th")
        wish = SetSize(cluster="workers", count=2)
        assert await peer.ask(wish) == ActionOutcome(accepted=True, why="the 2th")

    on_site(story)


def test_a_failure_of_the_manager_is_reported_and_can_be_retried() -> None:
    """Other platforms are not affected."""

    async def story(site: Site) -> None:
        async def fail(platform: int) -> None:
            if platform == 1:
                raise OSError("no database")

        site.notes.before = fail
        first, two = await site.join(1), await site.join(2)
        with capturedLogs() as logged, pytest.raises(MessageRefusedError, match="try again"):
            await first.ask(BIDS, "again")
        assert any("A request of platform" in str(event.get("log_format")) for event in logged)
        assert isinstance(await two.ask(BIDS), ActionOutcome)
        site.notes.before = None
        assert isinstance(await first.ask(BIDS, "again"), ActionOutcome)

    on_site(story)


def test_a_late_answer_counts() -> None:
    """A request to a slow daemon is sent again, and executed once."""

    async def story(site: Site) -> None:
        peer = await site.join(1, answer_s=0.05)
        asked: list[Deferred[None]] = []

        async def after_three(_: int) -> None:
            asked.append(Deferred())
            await asked[-1]

        site.notes.before = after_three
        answering = asyncio.ensure_future(peer.ask(BIDS))
        await until(lambda: peer._number > 5, "it was asked for again and again")
        assert len(asked) == 1
        # Nothing more is sent from here on: any answer belongs to an earlier message.
        peer._asking.send = silence  # type: ignore[method-assign,assignment]
        last = peer._number
        await until(lambda: peer._number > last, "another try")
        asked[0].callback(None)
        assert await soon(answering) == ActionOutcome(accepted=True, why="the 1th")
        assert len(site.notes.actions) == 1
        site.notes.before = None
        monitor = await site.join(1, MONITOR)
        assert isinstance(
            await soon(monitor.ask(SetSize(cluster="workers", count=2))), ActionOutcome
        )
        assert len(site.notes.actions) == 2

    async def silence(_: bytes) -> None:
        await asyncio.sleep(0)

    on_site(story)


def test_greeting_again_on_one_connection_keeps_the_session() -> None:
    """A process that greets twice on one connection stays valid."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        first = await raw.greet()
        assert (await raw.greet()).session == first.session
        envelope = Envelope(BIDS, first.session, 2, "once")
        assert isinstance(await raw.ask(envelope), ActionOutcome)
        elsewhere = Raw(site, site.hub.passport(1, CONTROLLER))
        assert (await elsewhere.greet()).session != first.session

    on_site(story)


def test_a_busy_process_continues_with_the_newest_news() -> None:
    """Old publications are dropped, and the remaining ones are in order."""
    many = 150

    async def story(site: Site) -> None:
        monitor = await site.join(1, MONITOR)
        await await_subscription(site, monitor)
        for period in range(1, many + 1):
            site.hub.announce(*parts(news(1, period)))
            await asyncio.sleep(0.002)
        await until(lambda: monitor.market == market(many), "the newest prices")
        waiting: list[int] = []
        while isinstance(message := monitor.waiting(), MarketNow):
            waiting.append(message.period)
        assert waiting == sorted(waiting)
        assert waiting[-1] == many
        assert len(waiting) < many

    on_site(story)
