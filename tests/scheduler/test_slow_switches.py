"""Commands that switch hosts may take long, hang or fail again and again.

No step of a VM waits for one, none is repeated in each period, and administrators see why a host
does not come back.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs

from merkatd.cluster import Sleep, Wake
from merkatd.database.scheduler import journal
from merkatd.embedded.model.vm_states import OneHostState
from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.base.troubles import LastRefusals
from tests.scheduler.scripted_strategy import Script
from tests.scheduler.test_sleeping_hosts import Hosts, Switches, always, outcomes


class SlowSwitches(Switches):
    """Switches that end when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.running: dict[str, Deferred[str]] = {}

    async def sleep(self, host: int, name: str) -> str:
        """Begin, and wait for the test."""
        await super().sleep(host, name)
        self.running[name] = Deferred()
        return await self.running[name]


class SlowHosts(Hosts):
    """Many hosts whose switches end when a test says so."""

    def __init__(self, hosts: int, **world: Any) -> None:
        super().__init__(**world)
        self.slow = self.switches = SlowSwitches()
        self.cloud.add_hosts(hosts - 2)
        self.start_daemon()


@pytest.fixture
def site(script: Script) -> Iterator[Hosts]:  # noqa: ARG001 - the strategy comes first
    """Yield two hosts."""
    made = Hosts()
    made.periods(1)
    yield made
    made.agree()
    made.close()


def asleep(script: Script, site: Hosts) -> None:
    """Put the second host to sleep."""
    script.steps = always(Sleep)
    site.periods(2)
    assert site.shown().hosts.asleep.tolist() == [False, True]


def replies(site: Hosts) -> list[str]:
    """Return the replies to all steps, oldest first."""
    rows = site.read(lambda c: journal.recent(c, journal.StepFilter(), 9999))
    return [str(row.reply) for row in reversed(rows)]


def test_a_period_waits_for_no_command(script: Script, site: Hosts) -> None:
    """The next one can begin while a host is switched off."""
    site.switches.hangs = True
    script.steps = always(Sleep)
    began_s = site.clock.seconds()
    site.period()
    assert site.clock.seconds() - began_s < 5.0
    site.clock.advance(60.0)
    assert site.switches.did == [("sleep", "host001")]


def test_a_step_is_judged_after_its_command(script: Script) -> None:
    """The host looks asleep during the command, which fails in the end."""
    site = SlowHosts(2)
    site.periods(1)
    script.steps = always(Sleep)
    site.periods(3)
    assert outcomes(site) == [("sleep", "sent")]
    script.steps = lambda _seen: ()
    site.slow.running["host001"].callback("exit code 255")
    site.periods(1)
    assert outcomes(site) == [("sleep", "refused")]
    assert "exit code 255" in replies(site)[-1]
    assert site.state_of_host() is OneHostState.MONITORED
    site.agree()
    site.close()


def test_many_hosts_take_turns_over_several_periods(script: Script) -> None:
    """At most 16 are switched at a time; each is switched once."""
    site = SlowHosts(41)
    site.periods(1)
    script.steps = lambda seen: [
        Sleep(period=seen.period, host=host, reason="to save power") for host in range(1, 41)
    ]
    site.periods(1)
    assert len(site.slow.running) == 16
    for _ in range(20):
        for running in list(site.slow.running.values()):
            if not running.called:
                running.callback("")
        site.periods(1)
    names = [name for _, name in site.switches.did]
    assert sorted(names) == sorted({f"host{number:03}" for number in range(1, 41)})
    assert site.shown().hosts.asleep.sum() == 40
    site.agree()
    site.close()


def test_a_step_whose_turn_comes_too_late_is_given_up(script: Script) -> None:
    """The decision for it is too old by then."""
    site = SlowHosts(20)
    site.periods(1)
    script.steps = lambda seen: [
        Sleep(period=seen.period, host=host, reason="to save power") for host in range(1, 20)
    ]
    site.periods(1)
    script.steps = lambda _seen: ()
    site.periods(1)
    for running in list(site.slow.running.values()):
        running.callback("")
    site.periods(1)
    assert len(site.slow.running) == 16
    assert [state for _, state in outcomes(site)].count("expired") == 3
    site.agree()
    site.close()


def test_a_wake_that_a_dead_daemon_left_is_repeated_soon(script: Script, site: Hosts) -> None:
    """The host still sleeps, so the step certainly had no effect."""
    asleep(script, site)

    def die() -> None:
        raise OSError("the daemon died")

    site.switches.before = die
    script.steps = always(Wake)
    site.periods(1)
    site.switches.before = lambda: None
    site.start_daemon()
    site.periods(5)
    assert site.switches.did == [("sleep", "host001"), ("wake", "host001")]
    assert site.state_of_host() is OneHostState.MONITORED


def test_a_host_that_shuts_down_is_not_woken(script: Script) -> None:
    """It would ignore the order, and be off afterwards."""
    site = Hosts(rhythm=Rhythm(shutdown_s=300.0))
    site.periods(1)
    script.steps = always(Sleep)
    site.periods(2)
    script.steps = always(Wake)
    site.periods(4)
    assert site.switches.did == [("sleep", "host001")]
    site.periods(4)
    assert site.switches.did == [("sleep", "host001"), ("wake", "host001")]
    site.agree()
    site.close()


def test_a_wake_that_fails_is_tried_ever_less_often(script: Script, site: Hosts) -> None:
    """Its attempts take half of the last hour at most, and administrators see the reason."""
    asleep(script, site)
    site.switches.why = "ipmitool: no route to host"
    script.steps = always(Wake)
    seen = site.periods(60).seen
    tries = site.switches.did.count(("wake", "host001"))
    assert 3 <= tries <= 7
    assert seen.observation.host_trouble == {
        1: f"asleep; waking it failed {tries} times, most recently with 'refused: ipmitool: no"
        " route to host'; further attempts follow at growing intervals"
    }
    site.switches.why = ""
    seen = site.periods(65).seen
    assert site.state_of_host() is OneHostState.MONITORED
    assert seen.observation.host_trouble == {}


def test_a_host_that_was_switched_begins_anew(script: Script, site: Hosts) -> None:
    """Failures before its last sleep do not count."""
    asleep(script, site)
    site.switches.why = "ipmitool: no route to host"
    script.steps = always(Wake)
    site.periods(20)
    site.bench.ok("one.host.status", 1, 0)
    site.switches.why = ""
    asleep(script, site)
    script.steps = lambda _seen: ()
    seen = site.periods(1).seen
    assert seen.observation.host_trouble == {}
    script.steps = always(Wake)
    site.switches.why = "ipmitool: no route to host"
    seen = site.periods(2).seen
    assert "waking it failed once" in seen.observation.host_trouble[1]


def test_a_sleep_that_fails_is_tried_ever_less_often(script: Script, site: Hosts) -> None:
    """The host would lose a few seconds of each period."""
    site.switches.why = "ssh: no route to host"
    script.steps = always(Sleep)
    site.periods(60)
    assert 3 <= len(site.switches.did) <= 7


def test_a_wrong_clock_blocks_no_host(script: Script, site: Hosts) -> None:
    """Failed attempts that lie in the future do not count."""
    asleep(script, site)
    site.switches.why = "ipmitool: no route to host"
    script.steps = always(Wake)
    ahead = 500_000.0
    site.wall_s = lambda: site.clock.seconds() + ahead  # type: ignore[method-assign]
    site.start_daemon()
    site.periods(20)
    site.wall_s = site.clock.seconds  # type: ignore[method-assign]
    site.start_daemon()
    site.switches.why = ""
    site.periods(3)
    assert site.state_of_host() is OneHostState.MONITORED


def test_a_host_that_is_gone_costs_no_period(script: Script, site: Hosts) -> None:
    """A strategy remembers a host that an administrator has removed."""
    vm = site.vm(SCHED_REQUIREMENTS="ID = 1")
    script.steps = lambda seen: [
        *always(Sleep, 99)(seen),
        *always(Wake, 98)(seen),
    ]
    decision = site.periods(2).decided.decision
    assert decision.left_hosts == dict.fromkeys((98, 99), "there is no such host")
    assert site.state(vm) == "RUNNING"


def lines(site: Hosts, periods: int = 1) -> list[str]:
    """Run periods; return the reasons of steps that are logged as not done."""
    with capturedLogs() as events:
        site.periods(periods)
    return [str(event["why"]) for event in events if "not done" in str(event.get("log_format"))]


def test_a_refused_step_is_logged_once_also_after_pauses(script: Script, site: Hosts) -> None:
    """It is logged again for another reason, and after the step was done."""
    script.steps = always(Wake)
    assert lines(site) == ["it does not sleep"]
    for _ in range(3):
        script.steps = lambda _seen: ()
        site.periods(2)
        script.steps = always(Wake)
        assert lines(site) == []
    script.steps = always(Sleep, 0)
    assert lines(site) == ["it is drained, or no command switches it off and on"]
    script.steps = always(Sleep)
    assert lines(site, 4) == ["it sleeps already"]
    script.steps = always(Wake)
    assert lines(site, 4) == ["it does not sleep"]


def test_remembered_refusals_are_bounded() -> None:
    """The oldest is forgotten, so it is new once more."""
    refusals = LastRefusals(2)
    seen = [refusals.note(thing, "full") for thing in ("a", "b", "a", "c", "a", "b")]
    assert seen == [True, True, False, True, False, True]
    assert not refusals.note("a", "")
    assert refusals.note("a", "full")
