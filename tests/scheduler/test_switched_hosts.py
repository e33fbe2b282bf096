"""A strategy's steps switch the hosts of the embedded cloud, which needs time to start them."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from merkatd.base.clock import Inline
from merkatd.cluster import HostState, Sleep, Wake
from merkatd.embedded.model.vm_states import OneHostState
from merkatd.hypervisor.simulated_hosts import EmbeddedPower
from merkatd.opennebula import Client, OpenNebulaCloud
from tests.scheduler.frontend import SESSION
from tests.scheduler.scripted_strategy import Script
from tests.scheduler.test_sleeping_hosts import Hosts, always, outcomes


class SwitchedHosts(Hosts):
    """Two hosts of the embedded cloud, which itself switches the second."""

    def start_daemon(self) -> None:
        """Start a daemon that orders the cloud to switch hosts."""
        super().start_daemon()
        client = Client(self.transport, SESSION, self.clock)
        power = EmbeddedPower(client, ["host001"])
        cloud = OpenNebulaCloud(client, self.clock, Inline(), now=self.wall_s, power=power)
        self.scheduler.world = replace(
            self.scheduler.world, cloud=cloud, chores=cloud.run_scheduled
        )

    def power(self) -> tuple[str, float]:
        """Return state and energy of the second host."""
        row = self.bench.ok("embedded.host.power", [1])["1"]
        return row["state"], row["energy_wh"]


@pytest.fixture
def site(script: Script) -> Iterator[SwitchedHosts]:  # noqa: ARG001 - the strategy comes first
    """Yield two hosts."""
    made = SwitchedHosts()
    made.periods(1)
    yield made
    made.agree()
    made.close()


def test_a_host_sleeps_without_energy_and_starts(script: Script, site: SwitchedHosts) -> None:
    """It is offline and off; after the order to wake it is in ERROR for a minute, and then on."""
    script.steps = always(Sleep)
    site.period()
    site.clock.advance(5)
    slept = site.power()
    assert slept[0] == "asleep"
    site.clock.advance(60)
    site.periods(5)
    assert site.power() == slept
    assert site.state_of_host() is OneHostState.OFFLINE
    script.steps = always(Wake)
    site.period()
    assert site.power()[0] == "starting"
    script.steps = lambda _seen: ()
    vm = site.vm(SCHED_REQUIREMENTS="ID = 1")
    site.clock.advance(30)
    site.period()
    assert site.state_of_host() is OneHostState.ERROR
    site.clock.advance(31)
    seen = site.periods(2).seen.snapshot
    assert site.power()[0] == "on"
    assert seen.hosts.state.tolist() == [HostState.ON] * 2
    assert outcomes(site) == [("sleep", "confirmed"), ("wake", "confirmed")]
    assert site.host_of(vm) == 1
