"""Hosts sleep and wake by a strategy's steps, whatever happens between two calls.

The commands themselves are tested in `tests/hypervisor/test_power_commands.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs

from merkatd.base.clock import Inline
from merkatd.cluster import HostState, Sleep, Snapshot, Wake
from merkatd.cluster.plan import Step
from merkatd.database.scheduler import journal, plan_store
from merkatd.database.scheduler.order_store import Order
from merkatd.database.scheduler.plan_store import PlanState
from merkatd.embedded.model.vm_states import OneHostState
from merkatd.opennebula import Client, OpenNebulaCloud
from merkatd.opennebula.rpc.xml_elements import only_child
from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.context import DrainedHosts
from tests.scheduler.frontend import SESSION, Frontend
from tests.scheduler.scripted_strategy import Script


class Switches:
    """Records switched hosts; implements `merkatd.scheduler.base.power_port.PowerPort`."""

    def __init__(self) -> None:
        self.hangs = False
        """Whether the next switches never end."""
        self.did: list[tuple[str, str]] = []
        self.why = ""
        """Why the next switches fail."""
        self.before: Callable[[], object] = lambda: None
        """What happens before a host is switched."""

    def serves(self, host: str) -> bool:
        """Return whether it is not the first host."""
        return host != "host000"

    async def sleep(self, host: int, name: str) -> str:  # noqa: ARG002 - of the port
        """Record it."""
        self.before()
        self.did.append(("sleep", name))
        if self.hangs:
            await Deferred()
        return self.why

    async def wake(self, host: int, name: str) -> str:  # noqa: ARG002 - of the port
        """Record it."""
        self.before()
        self.did.append(("wake", name))
        return self.why


class Hosts(Frontend):
    """Two hosts, of which the second can sleep."""

    def __init__(self, **world: Any) -> None:
        self.switches = Switches()
        super().__init__(hosts=2, **{"rhythm": Rhythm(shutdown_s=0.0)} | world)

    def start_daemon(self) -> None:
        """Start a daemon that can switch hosts, with nothing but the database."""
        super().start_daemon()
        client = Client(self.transport, SESSION, self.clock)
        cloud = OpenNebulaCloud(client, self.clock, Inline(), now=self.wall_s, power=self.switches)
        scheduler = self.scheduler
        scheduler.world = replace(
            scheduler.world,
            cloud=DrainedHosts(cloud, lambda: scheduler.drained),
            chores=cloud.run_scheduled,
        )

    def shown(self) -> Snapshot:
        """Run a period; return the snapshot that it saw."""
        return self.periods(1).seen.snapshot

    def attribute(self) -> str | None:
        """Return the mark of the second host in OpenNebula."""
        template = only_child(self.bench.ok("one.host.info", 1), "HOST").find("TEMPLATE")
        return None if template is None else template.findtext("MERKAT_ASLEEP")

    def state_of_host(self) -> OneHostState:
        """Return the state of the second host in OpenNebula."""
        return OneHostState(self.cloud.world.hosts.rows[1].state)


@pytest.fixture
def site(script: Script) -> Iterator[Hosts]:  # noqa: ARG001 - the strategy comes first
    """Yield two hosts."""
    made = Hosts()
    made.periods(1)
    yield made
    made.agree()
    made.close()


def always(kind: type[Sleep] | type[Wake], host: int = 1) -> Callable[[Snapshot], Sequence[Step]]:
    """Return a script that wants this in every period."""
    return lambda seen: [kind(period=seen.period, host=host, reason="to save power at night")]


def outcomes(site: Hosts) -> list[tuple[str, str]]:
    """Return the kinds and states of all steps on hosts, oldest first."""
    rows = site.read(lambda c: journal.recent(c, journal.StepFilter(), 9999))
    return [(r.step.kind, str(r.state)) for r in reversed(rows) if isinstance(r.step, Sleep | Wake)]


def test_a_host_sleeps_and_wakes(script: Script, site: Hosts) -> None:
    """It is offline meanwhile, is no trouble, and takes VMs again once it is monitored."""
    script.steps = always(Sleep)
    site.shown()
    assert site.switches.did == [("sleep", "host001")]
    assert site.state_of_host() is OneHostState.OFFLINE
    seen = site.periods(1).seen
    hosts = seen.snapshot.hosts
    assert hosts.state.tolist() == [HostState.ON, HostState.OFF]
    assert hosts.can_sleep.tolist() == [False, True]
    assert hosts.asleep.tolist() == [False, True]
    assert seen.observation.host_trouble == {}
    site.periods(2)
    assert site.switches.did == [("sleep", "host001")]
    script.steps = always(Wake)
    site.periods(2)
    script.steps = lambda _seen: ()
    seen = site.periods(1).seen
    assert seen.snapshot.hosts.asleep.tolist() == [False, False]
    assert seen.snapshot.hosts.state.tolist() == [HostState.ON] * 2
    assert site.switches.did == [("sleep", "host001"), ("wake", "host001")]
    assert outcomes(site) == [("sleep", "confirmed"), ("wake", "confirmed")]
    assert site.attribute() == ""


def test_a_host_may_boot_for_some_periods(script: Script, site: Hosts) -> None:
    """It is woken once; OpenNebula does not reach it meanwhile."""
    script.steps = always(Sleep)
    site.periods(2)
    script.steps = always(Wake)
    site.period()
    for _ in range(4):
        site.cloud.world.hosts.rows[1].state = OneHostState.ERROR
        site.cloud.world.changed("host", 1)
        site.periods(1)
        assert outcomes(site)[1:] == [("wake", "sent")]
    site.bench.ok("one.host.status", 1, 0)
    script.steps = lambda _seen: ()
    site.periods(1)
    assert outcomes(site)[1:] == [("wake", "confirmed")]
    assert site.switches.did == [("sleep", "host001"), ("wake", "host001")]


def test_a_host_that_does_not_come_is_given_up(script: Script, site: Hosts) -> None:
    """After the time limit, with a reason; it is in trouble, and woken again later."""
    script.steps = always(Sleep)
    site.periods(2)
    script.steps = always(Wake)
    site.period()
    site.cloud.world.hosts.rows[1].state = OneHostState.ERROR
    site.cloud.world.changed("host", 1)
    seen = site.periods(17).seen
    assert outcomes(site)[1:] == [("wake", "expired")]
    assert "waking it failed once" in seen.observation.host_trouble[1]
    site.periods(3)
    assert outcomes(site)[1:] == [("wake", "expired"), ("wake", "confirmed")]
    assert site.switches.did.count(("wake", "host001")) == 2


def test_a_restarted_daemon_can_wake_it(script: Script, site: Hosts) -> None:
    """The mark is in OpenNebula."""
    script.steps = always(Sleep)
    site.periods(1)
    site.start_daemon()
    script.steps = always(Wake)
    site.periods(3)
    assert site.switches.did == [("sleep", "host001"), ("wake", "host001")]
    assert site.state_of_host() is OneHostState.MONITORED


@pytest.mark.parametrize("call", ["one.host.update", "one.host.status", "sleep"])
@pytest.mark.parametrize("before", [True, False])
def test_a_daemon_that_dies_on_the_way_leaves_no_host_behind(
    script: Script, site: Hosts, call: str, before: bool
) -> None:
    """Whatever it did last, the next daemon puts the host to sleep, and wakes it."""
    real, power = site.transport.call, site.switches

    async def dying(method: str, session: str, *given: Any) -> Any:
        if method == call and before:
            raise OSError("the daemon died")
        answer = await real(method, session, *given)
        if method == call:
            raise OSError("the daemon died")
        return answer

    def die() -> None:
        if call == "sleep":
            raise OSError("the daemon died")

    site.transport.call = dying  # type: ignore[method-assign]
    power.before = die if call == "sleep" else power.before
    script.steps = always(Sleep)
    site.period()
    site.transport.call = real  # type: ignore[method-assign]
    power.before = lambda: None
    site.start_daemon()
    site.periods(3)
    assert site.shown().hosts.asleep.tolist() == [False, True]
    script.steps = always(Wake)
    site.periods(3)
    assert site.state_of_host() is OneHostState.MONITORED


def test_a_host_of_an_administrator_is_never_woken(script: Script, site: Hosts) -> None:
    """It was switched on by hand, and is taken offline for maintenance later."""
    script.steps = always(Sleep)
    site.periods(2)
    script.steps = lambda _seen: ()
    site.bench.ok("one.host.status", 1, 0)
    site.periods(2)
    assert site.attribute() == ""
    site.bench.ok("one.host.status", 1, 2)
    script.steps = always(Wake)
    with capturedLogs() as logs:
        seen = site.periods(2).seen
    assert site.switches.did == [("sleep", "host001")]
    assert list(seen.observation.host_trouble) == [1]
    whys = {log["why"] for log in logs if "step on host" in str(log.get("log_format"))}
    assert whys == {"it does not sleep"}


def test_a_host_with_a_vm_stays_awake(script: Script, site: Hosts) -> None:
    """Whatever the state of the VM."""
    mine = site.vm(SCHED_REQUIREMENTS="ID = 1")
    site.periods(2)
    assert site.host_of(mine) == 1
    script.steps = always(Sleep)
    site.periods(2)
    site.bench.ok("one.vm.action", "suspend", mine)
    site.periods(2)
    assert (site.switches.did, site.attribute()) == ([], None)


def test_a_host_to_which_a_vm_comes_stays_awake(script: Script, site: Hosts) -> None:
    """The period brings one there itself."""
    site.vm(SCHED_REQUIREMENTS="ID = 1")
    script.steps = always(Sleep)
    site.periods(1)
    assert (site.switches.did, site.attribute()) == ([], None)


def test_a_vm_that_came_meanwhile_keeps_the_host_awake(script: Script, site: Hosts) -> None:
    """An administrator deploys it by hand after the observation."""
    late = site.vm(SCHED_REQUIREMENTS="ID = 7")
    site.periods(1)
    real = site.transport.call

    async def racing(method: str, session: str, *given: Any) -> Any:
        if method == "one.host.update" and site.state(late) == "PENDING":
            site.bench.ok("one.vm.deploy", late, 1, False, -1, "")
        return await real(method, session, *given)

    script.steps = always(Sleep)
    site.transport.call = racing  # type: ignore[method-assign]
    site.periods(1)
    site.transport.call = real  # type: ignore[method-assign]
    assert site.switches.did == []
    assert site.state_of_host() is OneHostState.MONITORED
    assert outcomes(site) == [("sleep", "refused")]


def test_a_failed_command_leaves_the_host_on(script: Script, site: Hosts) -> None:
    """The step is refused with the reason, and tried again later."""
    script.steps = always(Sleep)
    site.switches.why = "ssh: no route to host"
    site.periods(4)
    assert site.state_of_host() is OneHostState.MONITORED
    assert outcomes(site) == [("sleep", "refused")] * 2
    rows = site.read(lambda c: journal.recent(c, journal.StepFilter(), 9999))
    assert "ssh: no route to host" in {str(row.reply).partition(": ")[2] for row in rows}


def test_a_command_that_hangs_delays_no_vm(script: Script) -> None:
    """Even if only one request to OpenNebula may be under way."""
    site = Hosts(rhythm=Rhythm(in_flight=1, in_flight_per_host=1))
    site.periods(1)
    site.switches.hangs = True
    script.steps = always(Sleep)
    vm = site.vm(SCHED_REQUIREMENTS="ID = 0")
    site.periods(1)
    assert (site.switches.did, site.state(vm)) == ([("sleep", "host001")], "RUNNING")
    site.agree()
    site.close()


def test_a_host_that_is_new_can_sleep(script: Script, site: Hosts) -> None:
    """Whether a host can sleep is known again as soon as the hosts are others."""
    site.bench.ok("one.host.allocate", "host002", "kvm", "kvm", 0)
    assert site.shown().hosts.can_sleep.tolist() == [False, True, True]
    script.steps = always(Sleep, 2)
    site.periods(1)
    assert site.switches.did == [("sleep", "host002")]


def test_other_hosts_are_not_switched(script: Script, site: Hosts) -> None:
    """The settings do not name it."""
    script.steps = always(Sleep, 0)
    site.periods(2)
    assert outcomes(site) == []


def test_a_daemon_that_asks_first_switches_after_the_approval(script: Script, site: Hosts) -> None:
    """And one that only watches switches nothing."""
    script.steps = always(Sleep)
    for mode in (Order.MODE_DRY, Order.MODE_SHADOW, Order.MODE_ASK):
        site.order(mode)
        site.periods(2)
        assert site.switches.did == []
    plan = site.read(plan_store.newest)
    assert [(step.kind, step.host, step.reason) for step in plan.steps] == [
        ("sleep", 1, "to save power at night")
    ]
    site.read(lambda c: plan_store.approve(c, plan, frozenset(), "root", site.wall_s()))
    site.periods(1)
    assert site.switches.did == [("sleep", "host001")]
    site.periods(1)
    assert site.read(plan_store.newest).state is PlanState.DONE
