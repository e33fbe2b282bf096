"""Two daemons on one cloud and one database: at most one of them acts in each period."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from twisted.internet.defer import ensureDeferred

from merkatd.base.clock import Inline
from merkatd.base.deferreds import wait_seconds
from merkatd.cluster import Create
from merkatd.daemon.single_instance import certainly_leads
from merkatd.database import Database, migrations
from merkatd.database.scheduler import lease_store, period_store
from merkatd.scheduler.leadership import Leadership, lease_s_of
from tests.lengths import SOAK, pair, shorten
from tests.scheduler.frontend import Frontend
from tests.scheduler.two_daemons import INTERVAL_S, TWO_ATTEMPTS, Daemon, pass_, periods_of


@pytest.fixture
def cloud() -> Iterator[Frontend]:
    """Return a cloud with a few waiting VMs."""
    made = Frontend()
    for at in range(4):
        made.vm(1.0 + at)
    yield made
    made.close()


@pytest.mark.parametrize(("rate", "offset_s"), pair([1.0, 1.1, 0.92], [0.0, 86_400.0, -3600.0]))
def test_the_standby_never_acts_beside_the_leader(
    cloud: Frontend, offset_s: float, rate: float
) -> None:
    """Their clocks may be off by any amount, or a tenth faster or slower."""
    first = Daemon(cloud, "first")
    pass_(cloud, 7)
    second, minutes = Daemon(cloud, "second", offset_s, rate), shorten(15, 5)
    pass_(cloud, minutes * 60)
    assert len(first.acted) == minutes + 1
    assert second.acted == []
    assert second.calls == []
    assert second.scheduler.standby == "daemon first has the lease on this database"
    assert second.scheduler.failures == 0
    assert cloud.read(periods_of) == first.acted
    cloud.agree()


@pytest.mark.parametrize("moment_s", [3.0, 31.0, 59.0, 61.0] if SOAK else [3.0, 59.0])
def test_the_standby_takes_over_within_two_periods_of_a_kill(
    cloud: Frontend, moment_s: float
) -> None:
    """This holds for any moment; VMs and credits continue unchanged."""
    first = Daemon(cloud, "first")
    pass_(cloud, 20)
    second = Daemon(cloud, "second", offset_s=500.0)
    pass_(cloud, 100 + moment_s)
    first.kill()
    before = len(first.acted)
    pass_(cloud, 2 * INTERVAL_S)
    assert len(second.acted) >= 1
    assert len(first.acted) == before
    pass_(cloud, 120)
    assert cloud.read(periods_of) == sorted({*first.acted, *second.acted})
    cloud.agree()


def test_the_standby_takes_over_at_once_after_an_orderly_stop(cloud: Frontend) -> None:
    """The leader released the lease: a tenth of a period is enough."""
    first = Daemon(cloud, "first")
    second = Daemon(cloud, "second")
    pass_(cloud, 130)
    first.end()
    pass_(cloud, INTERVAL_S / 10)
    assert len(second.acted) == 1
    assert second.scheduler.standby is None


@pytest.mark.parametrize("interval_s", [6 * INTERVAL_S, INTERVAL_S / 6, *[INTERVAL_S] * SOAK])
def test_a_daemon_stopped_during_a_takeover_sends_no_call(
    cloud: Frontend, interval_s: float
) -> None:
    """It stops within a period and continues with open steps, under any lease length."""
    first = Daemon(cloud, "first")
    second = Daemon(cloud, "second")
    pass_(cloud, 3)
    first.leading.adopt(lease_s_of(interval_s))
    pass_(cloud, 67)
    late = cloud.vm(9.0)
    cloud.bench.ok(
        "embedded.fault.add",
        {"kind": "delay", "method": "one.vm.info", "seconds": 10.0, "count": 1},
    )
    pass_(cloud, 52)
    assert cloud.state(late) == "PENDING"
    first.clock.stopped = True
    sent = list(first.calls)
    pass_(cloud, 300)
    assert len(second.acted) > 2
    assert cloud.state(late) == "RUNNING"
    number, balances = cloud.read(period_store.newest).number, cloud.balances()
    first.clock.resume()
    assert first.calls == sent
    assert cloud.read(period_store.newest).number == number
    assert cloud.balances() == balances
    pass_(cloud, 200)
    assert first.calls == sent
    assert first.scheduler.standby is not None
    cloud.agree()


def test_a_daemon_that_lost_its_lease_sends_no_open_step(cloud: Frontend) -> None:
    """It checks the lease before each call unless the lease is certain."""
    first = Daemon(cloud, "first")
    pass_(cloud, 130)
    cloud.vm(5.0)
    sent = list(first.calls)

    def steal(connection: sa.Connection) -> None:
        lease_store.take_lease(connection, "thief", lease_store.read_lease(connection))

    apply = first.scheduler.world.hypervisors.apply

    async def robbed(steps: Any) -> Any:
        cloud.read(steal)
        return await apply(steps)

    first.scheduler.world.hypervisors.apply = robbed  # type: ignore[method-assign]
    pass_(cloud, 60)
    first.scheduler.world.hypervisors.apply = apply  # type: ignore[method-assign]
    assert [method for _, method in first.calls[len(sent) :] if "deploy" in method] == []
    assert "another daemon has the lease" in (first.scheduler.standby or "")


def test_the_standby_waits_for_a_shortened_lease_as_long_as_before(cloud: Frontend) -> None:
    """The leader may still use the long one; a standby without it waits for its own lease."""
    first, second = Daemon(cloud, "first"), Daemon(cloud, "second")
    pass_(cloud, 130)
    second.leading.adopt(lease_s_of(INTERVAL_S / 6))
    first.clock.stopped = True
    pass_(cloud, 0.8 * lease_s_of(INTERVAL_S))
    assert second.acted == []
    pass_(cloud, INTERVAL_S)
    assert second.acted != []


def test_the_standby_waits_for_a_lengthened_lease(cloud: Frontend) -> None:
    """The leader relies on the short lease, but the standby waits for the long one."""
    first, second = Daemon(cloud, "first"), Daemon(cloud, "second")
    pass_(cloud, 130)
    second.leading.adopt(lease_s_of(2 * INTERVAL_S))
    first.kill()
    pass_(cloud, 1.5 * lease_s_of(INTERVAL_S))
    assert second.acted == []
    pass_(cloud, lease_s_of(INTERVAL_S))
    assert second.acted != []


def test_a_daemon_of_an_older_version_stops_acting_on_a_newer_schema(cloud: Frontend) -> None:
    """This holds for the leader and for a standby that would take over."""
    known = migrations.newest()
    first = Daemon(cloud, "first", revision=known)
    second = Daemon(cloud, "second", revision=known)
    pass_(cloud, 130)
    assert len(first.acted) == 3
    with cloud.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    pass_(cloud, 180)
    assert (len(first.acted), second.acted) == (3, [])
    for daemon in (first, second):
        assert daemon.scheduler.standby is not None
        assert f"from revision {known} to 9999: install that version" in daemon.scheduler.standby
    newer = Daemon(cloud, "newer", revision="9999")
    pass_(cloud, 130)
    assert len(newer.acted) >= 1


def test_in_a_zone_only_the_leaders_daemon_acts(cloud: Frontend) -> None:
    """When another server leads, its daemon acts within two periods and the first one stops."""
    first, second = Daemon(cloud, "first"), Daemon(cloud, "second")
    second.leads = False
    pass_(cloud, 130)
    assert second.acted == []
    first.leads, second.leads = False, True
    pass_(cloud, 2 * INTERVAL_S)
    assert len(second.acted) >= 1
    before = list(first.acted)
    pass_(cloud, 200)
    assert first.acted == before
    assert first.scheduler.standby == "another server leads the zone"


def test_a_restarted_daemon_does_not_wait_for_its_own_lease(cloud: Frontend) -> None:
    """Its state directory is locked, so the previous owner of the lease has ended."""
    first = Daemon(cloud, "first")
    pass_(cloud, 70)
    first.kill()
    again = Daemon(cloud, "first")
    pass_(cloud, 5)
    assert len(again.acted) == 1


def test_a_leader_is_certain_of_its_lease_for_less_time_than_others_wait(cloud: Frontend) -> None:
    """After a stop a daemon knows at once, without a query, that its lease is uncertain."""
    rng = np.random.default_rng(1)
    database = Database(cloud.engine, Inline(), cloud.clock, rng, TWO_ATTEMPTS)
    away_s = 0.0
    clock = cloud.clock
    leading = Leadership(
        database, clock, "one", lease_s_of(INTERVAL_S), now=lambda: clock.seconds() + away_s
    )
    assert not certainly_leads([leading])
    assert certainly_leads([])
    leading.start()
    for _ in range(100):
        pass_(cloud, 5.0)
        assert certainly_leads([leading])
    for part, sure in ((0.8, True), (0.95, False)):
        away_s = part * lease_s_of(INTERVAL_S)
        assert certainly_leads([leading]) == sure
    away_s = 0.0
    cloud.result(ensureDeferred(leading.stop()))
    assert not certainly_leads([leading])


def test_a_lease_that_was_just_renewed_needs_no_transaction_for_each_call(cloud: Frontend) -> None:
    """Many calls to OpenNebula share one recent check."""
    rng = np.random.default_rng(1)
    database = Database(cloud.engine, Inline(), cloud.clock, rng, TWO_ATTEMPTS)
    leading = Leadership(database, cloud.clock, "one", lease_s_of(INTERVAL_S))
    leading.start()
    pass_(cloud, 3 * lease_s_of(INTERVAL_S))
    before = database.answered
    for _ in range(10):
        cloud.result(ensureDeferred(leading.certain()))
    leading.adopt(lease_s_of(INTERVAL_S))
    cloud.result(ensureDeferred(leading.certain()))
    assert database.answered == before
    cloud.result(ensureDeferred(leading.stop()))


@pytest.mark.parametrize("loses", [True, False])
def test_listeners_are_notified_once_when_the_lease_is_lost_or_released(
    cloud: Frontend, loses: bool
) -> None:
    """Their work in progress ends then."""
    daemon = Daemon(cloud, "first")
    losses: list[bool] = []
    daemon.leading.when_lost(lambda: losses.append(daemon.leading.acting))
    pass_(cloud, 70)
    assert losses == []
    if loses:
        cloud.read(lambda c: lease_store.take_lease(c, "second", lease_store.read_lease(c)))
    else:
        daemon.leads = False
    pass_(cloud, 70)
    assert losses == [False]
    assert not daemon.leading.acting


def test_a_request_ends_with_the_lease_under_which_it_began(cloud: Frontend) -> None:
    """Another daemon creates the VM; the first daemon, once it leads again, creates no other."""
    key, wanted = "3f0c5a52-6f0b-4a55-9f7e-0d3d4b3a9a10", list[bool]()

    async def proposals(_: Any, seen: Any) -> list[Create]:
        if (key, 2) in seen.observation.keys or not wanted:
            return []
        template = "CPU=1\nMEMORY=64"
        return [Create(period=seen.period, key=key, template=template, owner=2, reason="new")]

    async def slowly(method: str, *arguments: Any) -> Any:
        if method == "one.user.info":
            await wait_seconds(cloud.clock, 25.0)
        return await call(method, *arguments)

    cloud.user("ann")
    cloud.world_settings = {"proposals": proposals}
    cloud.start_daemon()
    first = Daemon(cloud, "first")
    call, first.call = first.call, slowly  # type: ignore[method-assign]
    pass_(cloud, 3)
    second = Daemon(cloud, "second")
    pass_(cloud, 60)
    wanted.append(True)
    pass_(cloud, 60)  # the request goes on for most of a minute
    first.leads = False
    first.scheduler.wake()
    pass_(cloud, 32)
    first.leads, second.leads = True, False
    second.scheduler.wake()
    pass_(cloud, 60)
    assert first.leading.acting
    assert cloud.bench.ok("one.vmpool.infoextended", -2, -1, -1, -1).count(key) == 1
