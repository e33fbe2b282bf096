"""The bus over real sockets: everybody is answered, and hears what is theirs."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from merkatd.bus.platform_sessions import PlatformChannel
from merkatd.protocol.bus_messages import Measured, Remember
from merkatd.protocol.platform_messages import ActionOutcome, SetBids
from merkatd.protocol.wire_format import Packed, topic_of
from tests.bus.raw import Raw, listening, readable
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


def test_an_action_reaches_the_manager_and_its_answer_the_controller() -> None:
    """As it was said, and for the platform of who said it."""

    async def story(site: Site) -> None:
        peer = await site.joined(2)
        assert peer.welcome is not None
        assert peer.welcome.assignment == assignment(2)
        assert await peer.ask(BIDS) == ActionOutcome(accepted=True, why="the 1th")
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
            await listening(site, peer, platform)
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


def test_news_of_one_that_cannot_be_sent_keep_no_other_from_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever is wrong with the news of one platform, those that come after are sent."""
    real = PlatformChannel.packed

    def packed(desk: PlatformChannel) -> Packed:
        if desk.assignment.platform == 1 and desk.standing is not None:
            raise ZeroDivisionError("nothing to divide by")
        return real(desk)

    async def story(site: Site) -> None:
        peer = await site.joined(2)
        await listening(site, peer, 2)
        site.hub.announce(*parts(news(1, 5), news(2, 5)))
        assert await soon(anext(peer.news()), 10.0) == news(2, 5)

    monkeypatch.setattr(PlatformChannel, "packed", packed)
    on_site(story)


async def _all_heard(heard: Iterable[list[Any]], number: int) -> None:
    await until(lambda: min(map(len, heard)) >= number, "the news")


def test_what_a_monitor_sees_reaches_its_controller() -> None:
    """Through the daemon, under the monitor's own platform."""

    async def story(site: Site) -> None:
        controller = await site.joined(1)
        monitor = await site.joined(1, MONITOR)
        await listening(site, controller)
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
        while not await readable(raw.listening, 20):
            site.hub.announce(*parts(news(1)))
        raw.listening.close(0)
        second = await site.joined(2)
        await listening(site, second, 2)
        site.hub.announce(*parts(news(2, 5)))
        assert await soon(anext(second.news())) == news(2, 5)

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
