"""The bus over real sockets: each process gets answers, and only its own platform's news."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from merkatd.bus.platform_sessions import PlatformChannel
from merkatd.protocol.bus_messages import Measured, Remember
from merkatd.protocol.platform_messages import ActionOutcome, SetBids, VmNow
from merkatd.protocol.wire_format import Packed, topic_of
from tests.bus.raw import Raw, await_subscription, readable
from tests.bus.rig import (
    CONTROLLER,
    MONITOR,
    PATIENCE_S,
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
    """The action arrives unchanged, with the platform of the sender."""

    async def story(site: Site) -> None:
        peer = await site.join(2)
        assert peer.welcome is not None
        assert peer.welcome.assignment == assignment(2)
        assert await peer.ask(BIDS) == ActionOutcome(accepted=True, why="the 1th")
        ((platform, _, action),) = site.notes.actions
        assert (platform, action) == (2, BIDS)

    on_site(story)


def test_each_platform_receives_only_its_own_news() -> None:
    """News arrive in order; monitors receive the prices of their market."""

    async def story(site: Site) -> None:
        peers = {
            (platform, role): await site.join(platform, role)
            for platform in (1, 2)
            for role in (CONTROLLER, MONITOR)
        }
        for (platform, _), peer in peers.items():
            await await_subscription(site, peer, platform)
        heard: dict[Any, list[Any]] = {who: [] for who in peers}

        async def listen(who: Any) -> None:
            async for latest in peers[who].news():
                if not isinstance(latest, Measured) and latest.period:
                    heard[who].append(latest)

        tasks = [asyncio.ensure_future(listen(who)) for who in peers]
        for period in range(1, 6):
            site.hub.announce(*parts(news(1, period), news(2, period)))
            await _await_all(heard.values(), period)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for (platform, role), all_heard in heard.items():
            for period, message in enumerate(all_heard, start=1):
                assert message == (news(platform, period) if role == CONTROLLER else market(period))
            assert len(all_heard) == 5

    on_site(story)


def test_a_failing_platforms_news_do_not_block_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If packing one platform's news fails, later platforms still receive theirs."""
    real = PlatformChannel.packed

    def packed(desk: PlatformChannel) -> Packed:
        if desk.assignment.platform == 1 and desk.standing is not None:
            raise ZeroDivisionError("nothing to divide by")
        return real(desk)

    async def story(site: Site) -> None:
        peer = await site.join(2)
        await await_subscription(site, peer, 2)
        site.hub.announce(*parts(news(1, 5), news(2, 5)))
        assert await soon(anext(peer.news()), 10.0) == news(2, 5)

    monkeypatch.setattr(PlatformChannel, "packed", packed)
    on_site(story)


async def _await_all(heard: Iterable[list[Any]], number: int) -> None:
    await until(lambda: min(map(len, heard)) >= number, "the news")


def test_a_monitors_measurement_reaches_its_controller() -> None:
    """The daemon forwards it within the monitor's own platform."""

    async def story(site: Site) -> None:
        controller = await site.join(1)
        monitor = await site.join(1, MONITOR)
        await await_subscription(site, controller)
        measured = Measured(cluster="workers", at_s=5.0, values={"iteration_s": 2.5})
        await monitor.ask(measured)
        assert await soon(anext(controller.news())) == measured

    on_site(story)


def test_the_daemon_keeps_the_newest_measurements_that_it_reads() -> None:
    """Others, of unknown clusters, and numbers that can't be true are not kept."""

    async def story(site: Site) -> None:
        monitor = await site.join(1, MONITOR)
        assert site.hub.readings(1) == site.hub.readings(77) == {}
        for values in ({"arrivals_per_s": 1.0}, {"response_s": 0.5, "done": -1.0, "p99_s": 2.0}):
            await monitor.ask(Measured(cluster="workers", at_s=5.0, values=values))
        await monitor.ask(Measured(cluster="elsewhere", at_s=5.0, values={"done": 1.0}))
        (reading,) = site.hub.readings(1).values()
        assert reading.values == {"response_s": 0.5}
        assert 0 <= reading.age_s < PATIENCE_S
        huge = {"response_s": 1e300, "arrivals_per_s": 0.0}
        await monitor.ask(Measured(cluster="workers", at_s=5.0, values=huge))
        assert site.hub.readings(1)["workers"].values == {"arrivals_per_s": 0.0}
        site.hub.dismiss(1)
        assert site.hub.readings(1) == {}

    on_site(story)


def test_the_daemon_keeps_iterations_of_the_clusters_own_vms_only() -> None:
    """A monitor can't fill its memory with VMs that it invents, nor speak for other clusters."""

    async def story(site: Site) -> None:
        monitor = await site.join(1, MONITOR)
        made = {f"made/{vm}": 7.0 for vm in range(90, 130)} | {"made/": 1.0, "made/x": 1.0}
        measured = Measured(cluster="workers", at_s=5.0, values=made)
        await monitor.ask(measured)
        assert site.hub.readings(1)["workers"].values == {}
        other = VmNow(vm=102, cluster="other", state="running", bid={}, allocation={})
        site.hub.announce([market()], [news(vms=(*news().vms, other))])
        await until(lambda: site.hub._desks[1].standing is not None, "the news")
        await monitor.ask(measured)
        assert site.hub.readings(1)["workers"].values == {"made/101": 7.0}
        made["made/101"] = -1.0
        await monitor.ask(Measured(cluster="workers", at_s=5.0, values=made))
        assert site.hub.readings(1)["workers"].values == {}

    on_site(story)


def test_a_late_process_receives_the_latest_news() -> None:
    """A new process also gets its remembered memory."""

    async def story(site: Site) -> None:
        first = await site.join(1)
        await first.ask(Remember(memory={"seen": [1, 2]}))
        site.hub.announce(*parts(news(1, 7)))
        await first.close()
        second = await site.join(1)
        assert second.welcome is not None
        assert second.welcome.latest.news == news(1, 7)
        assert second.welcome.assignment.memory == {"seen": [1, 2]} == site.notes.memories[1]

    on_site(story)


def test_the_hub_serves_the_next_listener_after_a_kill() -> None:
    """ZeroMQ itself withdraws the subscriptions of a killed process."""

    async def story(site: Site) -> None:
        raw = Raw(site, site.hub.passport(1, CONTROLLER))
        await raw.greet()
        raw.listening.subscribe(topic_of(1))
        while not await readable(raw.listening, 20):
            site.hub.announce(*parts(news(1)))
        raw.listening.close(0)
        second = await site.join(2)
        await await_subscription(site, second, 2)
        site.hub.announce(*parts(news(2, 5)))
        assert await soon(anext(second.news())) == news(2, 5)

    on_site(story, beat_s=3600.0)


def test_missed_news_are_found_at_the_next_heartbeat() -> None:
    """News published before the subscription are requested after the next heartbeat."""

    async def story(site: Site) -> None:
        peer = await site.join(1)
        # No publication reaches a process from here on.
        site.hub._door.publish = lambda *_: None  # type: ignore[method-assign]
        site.hub.announce(*parts(news(1, 3)))
        assert await soon(anext(peer.news())) == news(1, 3)

    on_site(story, beat_s=0.05)
