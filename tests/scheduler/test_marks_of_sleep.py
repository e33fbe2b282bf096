"""A host keeps its mark of sleep exactly as long as the daemon may wake it.

Whatever administrators, other daemons, failing commands and restarts do in between.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from merkatd.cluster import HostState, Sleep, Wake
from merkatd.database.scheduler.order_store import Order
from merkatd.embedded.model.vm_states import OneHostState
from merkatd.scheduler.base.ports import StepReply
from merkatd.scheduler.phases.requests import cancel_requests
from tests.scheduler.scripted_strategy import Script
from tests.scheduler.test_sleeping_hosts import Hosts, always, outcomes

ENABLE, DISABLE, OFFLINE = 0, 1, 2
"""What `one.host.status` sets."""


@pytest.fixture
def site(script: Script) -> Iterator[Hosts]:  # noqa: ARG001 - the strategy comes first
    """Yield two hosts."""
    made = Hosts()
    made.periods(1)
    yield made
    made.agree()
    made.close()


def fall_asleep(script: Script, site: Hosts) -> None:
    """Put the second host to sleep, long enough ago that it is off for certain."""
    script.steps = always(Sleep)
    site.periods(2)
    script.steps = lambda _seen: ()
    site.periods(4)
    assert site.shown().hosts.asleep.tolist() == [False, True]


def turn(site: Hosts, state: OneHostState) -> None:
    """Let OpenNebula find the second host in this state."""
    site.cloud.world.hosts.rows[1].state = state
    site.cloud.world.changed("host", 1)


def test_a_host_keeps_its_mark_after_a_failed_attempt(script: Script, site: Hosts) -> None:
    """The attribute of the attempt that failed is not removed after the one that succeeds."""
    script.steps = always(Sleep)
    site.switches.why = "ssh: no route to host"
    site.periods(1)
    site.switches.why = ""
    site.periods(8)
    assert outcomes(site)[-1] == ("sleep", "confirmed")
    assert site.attribute()
    assert site.shown().hosts.asleep.tolist() == [False, True]


@pytest.mark.parametrize("status", [DISABLE, OFFLINE])
def test_a_host_under_maintenance_is_not_switched_off(
    script: Script, site: Hosts, status: int
) -> None:
    """An administrator may work on a host that is disabled or offline."""
    site.bench.ok("one.host.status", 1, status)
    script.steps = always(Sleep)
    before = site.state_of_host()
    site.periods(3)
    assert (site.switches.did, site.attribute()) == ([], None)
    assert site.state_of_host() is before


def test_a_drained_host_is_not_switched_off(script: Script, site: Hosts) -> None:
    """It is emptied because an administrator needs it."""
    site.order(Order.DRAIN, 1)
    script.steps = always(Sleep)
    site.periods(3)
    assert (site.switches.did, site.state_of_host()) == ([], OneHostState.MONITORED)


def test_a_drained_host_is_not_woken(script: Script, site: Hosts) -> None:
    """So administrators can keep a sleeping host off, until they end the drain."""
    fall_asleep(script, site)
    site.order(Order.DRAIN, 1)
    script.steps = always(Wake)
    site.periods(3)
    assert site.switches.did == [("sleep", "host001")]
    site.order(Order.UNDRAIN, 1)
    site.periods(2)
    assert site.switches.did == [("sleep", "host001"), ("wake", "host001")]


@pytest.mark.parametrize("status", [DISABLE, OFFLINE])
def test_a_state_that_an_administrator_sets_meanwhile_holds(
    script: Script, site: Hosts, status: int
) -> None:
    """It is set after the observation: the host is neither switched off nor enabled."""
    real = site.transport.call
    done: list[Any] = []

    async def racing(method: str, session: str, *given: Any) -> Any:
        if method == "one.host.info" and not done:
            done.append(site.bench.ok("one.host.status", 1, status))
        return await real(method, session, *given)

    script.steps = always(Sleep)
    site.transport.call = racing  # type: ignore[method-assign]
    site.period()
    site.clock.advance(60.0)
    site.transport.call = real  # type: ignore[method-assign]
    assert done
    assert site.switches.did == []
    assert site.state_of_host() in {OneHostState.DISABLED, OneHostState.OFFLINE}
    script.steps = always(Wake)
    site.periods(3)
    assert site.switches.did == []


def test_a_host_that_is_enabled_on_its_way_to_sleep_stays_on(script: Script, site: Hosts) -> None:
    """The administrator enables it between the offline state and the command."""
    script.steps = always(Sleep)
    real = site.transport.call

    async def racing(method: str, session: str, *given: Any) -> Any:
        answer = await real(method, session, *given)
        if method == "one.host.status":
            turn(site, OneHostState.MONITORED)
        return answer

    site.transport.call = racing  # type: ignore[method-assign]
    site.period()
    site.clock.advance(60.0)
    site.transport.call = real  # type: ignore[method-assign]
    assert (site.switches.did, site.state_of_host()) == ([], OneHostState.MONITORED)


def test_another_daemon_removes_the_mark_in_vain(script: Script, site: Hosts) -> None:
    """It sees the attribute before OpenNebula shows that the host is offline."""
    script.steps = always(Sleep)
    real = site.transport.call

    async def racing(method: str, session: str, *given: Any) -> Any:
        if method == "one.host.status":
            site.bench.ok("one.host.update", 1, 'MERKAT_ASLEEP=""', 1)
        return await real(method, session, *given)

    site.transport.call = racing  # type: ignore[method-assign]
    site.period()
    site.clock.advance(60.0)
    site.transport.call = real  # type: ignore[method-assign]
    assert site.shown().hosts.asleep.tolist() == [False, True]


def test_a_command_that_fails_late_loses_no_host(script: Script, site: Hosts) -> None:
    """The host is off, although its command failed: it is in ERROR, and can be woken."""
    script.steps = always(Sleep)
    site.switches.why = "ssh did not end within 60 s"
    site.period()
    site.clock.advance(10.0)
    turn(site, OneHostState.ERROR)
    script.steps = lambda _seen: ()
    site.switches.why = ""
    site.periods(4)
    hosts = site.shown().hosts
    assert (hosts.asleep.tolist(), hosts.state.tolist()) == (
        [False, True],
        [HostState.ON, HostState.OFF],
    )
    script.steps = always(Wake)
    site.periods(3)
    assert site.switches.did == [("sleep", "host001"), ("wake", "host001")]
    assert site.state_of_host() is OneHostState.MONITORED


def test_a_host_enabled_while_the_daemon_only_watches_is_not_woken(
    script: Script, site: Hosts
) -> None:
    """In mode dry the daemon writes nothing, but it remembers what it saw."""
    fall_asleep(script, site)
    site.order(Order.MODE_DRY)
    site.bench.ok("one.host.status", 1, ENABLE)
    site.periods(1)
    site.bench.ok("one.host.status", 1, OFFLINE)
    site.periods(1)
    assert site.attribute()
    script.steps = always(Wake)
    site.order(Order.MODE_ON)
    site.periods(3)
    assert site.switches.did == [("sleep", "host001")]
    assert site.attribute() == ""


def test_an_attribute_of_the_cluster_marks_no_host(script: Script, site: Hosts) -> None:
    """A host that an administrator took offline is not woken because of it."""
    site.bench.ok("one.cluster.update", 0, 'MERKAT_ASLEEP="2026-01-01"', 1)
    site.bench.ok("one.host.status", 1, OFFLINE)
    site.clock.advance(400.0)  # clusters are read seldom
    script.steps = always(Wake)
    site.periods(3)
    assert site.switches.did == []
    assert site.shown().hosts.asleep.tolist() == [False, False]


def test_a_host_that_is_taken_offline_while_it_boots_stays_off(script: Script, site: Hosts) -> None:
    """An administrator repairs a host that does not come back."""
    fall_asleep(script, site)
    script.steps = always(Wake)
    site.period()
    turn(site, OneHostState.ERROR)
    site.clock.advance(60.0)
    site.bench.ok("one.host.status", 1, OFFLINE)
    site.periods(30)
    assert site.switches.did == [("sleep", "host001"), ("wake", "host001")]
    assert site.attribute() == ""


def test_a_sleeping_host_that_was_disabled_and_enabled_is_woken(
    script: Script, site: Hosts
) -> None:
    """Nothing has switched it on meanwhile: OpenNebula finds an error."""
    fall_asleep(script, site)
    site.bench.ok("one.host.status", 1, DISABLE)
    script.steps = always(Wake)
    site.periods(2)
    assert site.switches.did == [("sleep", "host001")]
    site.bench.ok("one.host.status", 1, ENABLE)
    turn(site, OneHostState.ERROR)
    site.periods(2)
    assert site.switches.did == [("sleep", "host001"), ("wake", "host001")]


def test_a_sleeping_host_that_was_disabled_and_taken_offline_stays_off(
    script: Script, site: Hosts
) -> None:
    """An administrator needs it so."""
    fall_asleep(script, site)
    site.bench.ok("one.host.status", 1, DISABLE)
    site.periods(1)
    site.bench.ok("one.host.status", 1, OFFLINE)
    script.steps = always(Wake)
    site.periods(3)
    assert site.switches.did == [("sleep", "host001")]
    assert site.attribute() == ""


def test_a_step_of_a_lost_lease_blocks_no_host(script: Script, site: Hosts) -> None:
    """The step ends where it is, and the next leader goes on from there."""
    site.switches.hangs = True
    script.steps = always(Sleep)
    site.periods(1)
    assert site.switches.did == [("sleep", "host001")]
    cancel_requests(site.scheduler.world)
    site.switches.hangs = False
    script.steps = lambda _seen: ()
    site.periods(4)
    assert outcomes(site) == [("sleep", "confirmed")]
    script.steps = always(Wake)
    site.periods(2)
    assert site.state_of_host() is OneHostState.MONITORED


def test_an_observation_before_the_host_is_offline_costs_no_mark(
    script: Script, site: Hosts
) -> None:
    """The attribute is there already, and OpenNebula still uses the host."""
    script.steps = always(Sleep)
    real = site.transport.call

    async def observed(method: str, session: str, *given: Any) -> Any:
        if method == "one.host.status":
            seen = await site.scheduler.world.cloud.observe()
            assert seen.host_state.tolist() == [HostState.ON] * 2
        return await real(method, session, *given)

    site.transport.call = observed  # type: ignore[method-assign]
    site.periods(1)
    site.transport.call = real  # type: ignore[method-assign]
    site.periods(2)
    assert site.attribute()
    assert site.shown().hosts.asleep.tolist() == [False, True]


def test_a_new_mark_is_not_removed_in_place_of_the_old_one(script: Script, site: Hosts) -> None:
    """Another daemon has put the host to sleep since this one saw it awake."""
    script.steps = lambda _seen: ()
    site.bench.ok("one.host.update", 1, 'MERKAT_ASLEEP="2026-01-01"', 1)
    real = site.transport.call

    async def racing(method: str, session: str, *given: Any) -> Any:
        if method == "one.host.info":
            site.bench.ok("one.host.update", 1, 'MERKAT_ASLEEP="2026-01-02"', 1)
            site.bench.ok("one.host.status", 1, OFFLINE)
        return await real(method, session, *given)

    site.transport.call = racing  # type: ignore[method-assign]
    site.periods(1)
    site.transport.call = real  # type: ignore[method-assign]
    site.periods(2)
    assert site.attribute() == "2026-01-02"
    assert site.shown().hosts.asleep.tolist() == [False, True]


def test_no_step_begins_while_an_old_mark_is_removed(script: Script, site: Hosts) -> None:
    """Its new mark would be removed with the old one."""
    script.steps = lambda _seen: ()
    site.bench.ok("one.host.update", 1, 'MERKAT_ASLEEP="2026-01-01"', 1)
    real, answers = site.transport.call, list[StepReply]()

    async def racing(method: str, session: str, *given: Any) -> Any:
        if method == "one.host.update":
            step = Sleep(period=1, host=1, reason="")
            answers.append(await site.scheduler.world.cloud.send(step))
        return await real(method, session, *given)

    site.transport.call = racing  # type: ignore[method-assign]
    site.periods(1)
    site.transport.call = real  # type: ignore[method-assign]
    assert [answer.why for answer in answers] == ["another step for the host is under way"]
    assert site.attribute() == ""


def test_a_host_with_another_name_by_now_is_not_switched(script: Script, site: Hosts) -> None:
    """The command for the old name could switch a different machine."""
    real = site.transport.call

    async def renamed(method: str, session: str, *given: Any) -> Any:
        if method == "one.host.info":
            site.cloud.world.hosts.rows[1].name = "host002"
            site.cloud.world.changed("host", 1)
        return await real(method, session, *given)

    script.steps = always(Sleep)
    site.transport.call = renamed  # type: ignore[method-assign]
    site.periods(1)
    site.transport.call = real  # type: ignore[method-assign]
    assert site.switches.did == []
    assert outcomes(site) == [("sleep", "refused")]
