"""A platform that subscribes to many topics of others."""

import asyncio
from itertools import count
from pathlib import Path

import pytest
import zmq

from merkatd.bus.socket_paths import LOOPBACK, endpoint_in
from merkatd.protocol.bus_messages import Heartbeat, Hello
from merkatd.protocol.wire_format import Envelope, pack
from tests.bus.raw import Raw, await_subscription, readable
from tests.bus.rig import CONTROLLER, ROLES, Site, assignment, news, on_site, parts


@pytest.mark.parametrize("ended", [False, True], ids=["", "ended"])
@pytest.mark.parametrize("own_folder", [False, True], ids=["port", "folder"])
def test_many_foreign_topics_end_the_access_of_their_platform_only(
    *, own_folder: bool, ended: bool, tmp_path: Path
) -> None:
    """ZeroMQ keeps each topic with some kilobytes; the other platforms connect again."""

    async def story(site: Site) -> None:
        passport = site.hub.passport(1, CONTROLLER)
        raw, other = Raw(site, passport), await site.join(2)
        await raw.greet()
        await await_subscription(site, other, 2)
        ends = raw.listening.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            if ended:  # the library keeps the connections that it has
                site.hub.dismiss(1)
            for number in range(30):
                raw.listening.subscribe(b"foreign %d" % number)
            assert await readable(ends, 10_000)
        finally:
            raw.listening.disable_monitor()
            ends.close()
        # Neither this connection nor a new one of the platform is served.
        await raw.socket.send(pack(Envelope(Heartbeat(), number=2)))
        again = Raw(site, passport)
        await again.socket.send(pack(Envelope(Hello(role=CONTROLLER), number=1)))
        periods = count(1)
        while other.waiting() is None:
            site.hub.announce(*parts(news(2, next(periods))))
            await asyncio.sleep(0.02)
        assert await other.ask(Heartbeat())
        assert not await readable(raw.socket, 200)
        assert not await readable(again.socket, 200)
        # Its next processes have new keys.
        site.hub.admit(assignment(1), ROLES)
        await site.join(1)

    on_site(story, endpoint=endpoint_in(tmp_path) if own_folder else LOOPBACK)
