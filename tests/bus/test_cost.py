"""Requests of processes cost the event loop little, even with large answers."""

from dataclasses import replace
from typing import Any

import pytest

from merkatd.base.rate_limit import NamedRateLimits
from merkatd.protocol import wire_format
from merkatd.protocol.bus_messages import Beaten, Heartbeat, Latest, LatestRequest, Welcome
from merkatd.protocol.platform_messages import PlatformStatus
from merkatd.protocol.wire_format import Envelope, pack, unpack
from tests.bus.raw import Raw, readable
from tests.bus.rig import CONTROLLER, Site, news, on_site, parts

VMS = 1_000


def test_a_status_is_packed_once_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """All requests and publications of a period share the packed bytes."""
    packed: list[Any] = []
    encoder = wire_format._ENCODER

    class Counting:
        def encode(self, value: Any) -> str:
            if isinstance(value, PlatformStatus):
                packed.append(value)
            return encoder.encode(value)

    monkeypatch.setattr(wire_format, "_ENCODER", Counting())

    async def story(site: Site) -> None:
        for period in (1, 2):
            (market,), (standing,) = parts(news(1, period))
            vm = standing.vms[0]
            vms = tuple(replace(vm, vm=1_000 + number) for number in range(VMS))
            standing = replace(standing, vms=vms)
            site.hub.announce([market], [standing])
            peer = await site.join()
            for _ in range(20):
                latest = await peer.ask(LatestRequest())
                assert isinstance(latest, Latest)
                assert latest.standing == standing
                assert latest.market == market
            assert packed == [standing] if period == 1 else packed[1:] == [standing]

    on_site(story)


def test_bytes_are_throttled_as_well_as_messages() -> None:
    """Few messages with large answers use up a platform's rate; other platforms are answered."""

    async def story(site: Site) -> None:
        (market,), (standing,) = parts(news(1))
        vms = tuple(replace(standing.vms[0], vm=1_000 + number) for number in range(VMS))
        site.hub.announce([market], [replace(standing, vms=vms)])
        greedy = Raw(site, site.hub.passport(1, CONTROLLER))
        session = (await greedy.greet()).session
        for number in range(1, 101):
            await greedy.socket.send(pack(Envelope(LatestRequest(), session, number)))
        answered = 0
        while await readable(greedy.socket, 300):
            await greedy.socket.recv()
            answered += 1
        size = len(pack(Envelope(replace(standing, vms=vms))))
        assert 3 <= answered <= 2**20 / size + 2
        other = await site.join(2)
        assert isinstance(await other.ask(Heartbeat()), Beaten)

    on_site(story, traffic_mib=1e-6, traffic_at_once_mib=1.0)


def test_a_large_answer_is_paid_off_later() -> None:
    """An answer above the limit is sent, and the platform waits until it is paid off."""
    now = [0.0]
    throttle = NamedRateLimits(lambda: now[0], 10.0, 100.0)
    assert throttle.allows("a")
    throttle.spend("a", 299.0)
    assert not throttle.allows("a")
    now[0] = 19.0
    assert not throttle.allows("a")
    now[0] = 21.0
    assert throttle.allows("a")
    assert throttle.allows("b")


def test_packed_fields_are_read_like_the_whole_message() -> None:
    """Separately packed fields give the same bytes as the whole message."""
    (market,), (standing,) = parts(news(1))
    unparted = Latest(market=market, standing=standing, published=3, priced=2)
    parted = wire_format.pack_fields(
        Latest,
        market=wire_format.pack_body(market),
        standing=wire_format.pack_body(standing),
        published=3,
        priced=2,
    )
    assert pack(Envelope(parted, "s", 7, "i")) == pack(Envelope(unparted, "s", 7, "i"))
    assert unpack(pack(Envelope(parted)), {"latest": Latest, "welcome": Welcome}).body == unparted
