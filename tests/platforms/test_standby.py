"""Two managers of platforms on one database: only the holder of the lease accepts actions."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from merkatd.database.scheduler.lease_store import LeaseLostError
from merkatd.platforms.manager import Manager
from merkatd.protocol.platform_messages import SetSize
from merkatd.scheduler.leadership import Leadership
from merkatd.scheduler.period import Scheduler
from tests.platforms.site import Notes, Site

LEASE_S = 90.0


class Rival:
    """A daemon that shares database and cloud with others: scheduler, manager, lease."""

    def __init__(self, site: Site, name: str) -> None:
        self._site = site
        world = site.scheduler.world
        self.notes = Notes()
        self.leading = Leadership(world.database, site.clock, name, LEASE_S)
        rng = np.random.default_rng(len(name))
        self.manager = Manager(world, self.notes, rng, self.leading)
        self.scheduler = Scheduler(replace(world, proposals=self.manager.proposals), self.leading)
        self.scheduler.listen(self.manager.send_news)
        self.leading.start()
        self.scheduler.start()

    def act(self, platform: int, action_id: str, count: int) -> Any:
        """Act as a controller of this daemon."""
        wish = SetSize(cluster="nodes", count=count)
        return self._site.wait(self.manager.act(platform, action_id, wish))

    def end(self) -> None:
        """End the daemon in order."""
        self._site.result(ensureDeferred(self.scheduler.stop()))
        self._site.result(ensureDeferred(self.leading.stop()))


@pytest.fixture
def site() -> Iterator[Site]:
    """Yield a cloud and its database."""
    made = Site()
    yield made
    made.close()


def freeze(rival: Rival) -> None:
    """Stop the daemon's process, so that it notices nothing."""
    leading, beat = rival.leading, rival.scheduler._beat
    for call in (leading._call, beat._call):
        call.cancel()
    leading._call = beat._call = None


def test_losing_the_lease_ends_controllers_and_rejects_actions(site: Site) -> None:
    """The successor starts its own; late actions of old ones are rejected."""
    platform = site.submit()
    first, second = Rival(site, "first"), Rival(site, "second")
    site.clock.pump([10.0] * 30)
    assert set(first.notes.running) == {platform}
    assert not second.notes.running
    assert first.act(platform, "before", 3).accepted
    with pytest.raises(LeaseLostError):
        second.act(platform, "never", 4)

    freeze(first)
    site.clock.pump([10.0] * 30)
    assert set(second.notes.running) == {platform}
    # It continues without knowing of the takeover: its controller still exists and acts.
    assert first.leading.acting
    assert set(first.notes.running) == {platform}
    with pytest.raises(LeaseLostError):
        first.act(platform, "late", 4)
    assert not first.notes.running
    assert site.platform(platform).sizes == {"nodes": 3}
    assert second.act(platform, "after", 2).accepted
    second.end()


def test_a_standby_does_not_end_its_controllers_platforms(site: Site) -> None:
    """A controller that fails there may work at the other daemon."""
    platform = site.submit()
    first, second = Rival(site, "first"), Rival(site, "second")
    site.clock.pump([10.0] * 30)
    site.wait(second.manager.ended(platform, "was killed", final=True))
    assert site.platform(platform).state == "running"
    with pytest.raises(LeaseLostError):
        site.wait(second.manager.remember(platform, {"of": "nobody"}))
    for daemon in (first, second):
        daemon.end()
    assert not first.notes.running


def test_a_slowly_ending_controller_makes_no_others_wait(site: Site) -> None:
    """Others get their news, and new ones start."""
    slow = site.submit()
    site.until(slow, "running")
    never: Deferred[None] = Deferred()
    stop = site.notes.stop

    async def stopping(platform: int, grace_s: float) -> None:
        await stop(platform, grace_s)
        await never

    site.notes.stop = stopping  # type: ignore[method-assign]
    site.wait(site.manager.stop(slow, "ann"))
    other = site.submit()
    site.until(other, "running")
    assert set(site.notes.running) == {other}
    assert site.notes.news[-1].platform == other
