"""OpenNebula's constraints: each is tested with a whole period of Merkat on each endpoint.

The message of a waiting VM names the constraint and a way to satisfy it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from merkatd.scheduler.base.settings import MarketRules
from tests.contract.endpoint import HOST_CPU, HOST_MIB, SMALL
from tests.contract.merkat import DISABLED, OFFLINE, Merkat, say
from tests.contract.ways import HOLD, RUNNING

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint

MOST_OF_A_HOST = (
    f'CPU="1"\nMEMORY="{HOST_MIB - 1000}"\nMERKAT_MIN_MEMORY="{HOST_MIB - 5000}"\n'
    'MERKAT_BID_MEMORY="100"\n'
)
"""Its bid pays for its claim."""


# -- hosts ----------------------------------------------------------------------------------------


def test_closed_hosts_take_no_vms(endpoint: Endpoint, merkat: Merkat) -> None:
    """Disabled and offline hosts take none."""
    endpoint.ok("one.host.status", endpoint.hosts[0], DISABLED)
    endpoint.ok("one.host.status", endpoint.hosts[1], OFFLINE)
    assert merkat.places("", "", "") == [2, 2, 2]
    endpoint.ok("one.host.status", endpoint.hosts[2], DISABLED)
    assert merkat.why("") == "no host of market default takes VMs now"


def test_reserved_capacity_is_not_sold(endpoint: Endpoint, merkat: Merkat) -> None:
    """A VM waits if its floor or its start needs RESERVED_MEM or RESERVED_CPU."""
    for host in (0, 1):
        say(endpoint, host, f'RESERVED_MEM="{6000 * 1024}"')
    assert merkat.places(MOST_OF_A_HOST, "") == [2, 0]
    assert merkat.why(MOST_OF_A_HOST).startswith(
        f"needs {HOST_MIB - 5000:,} MiB of memory as its floor; of 1 hosts that may take it"
    )
    for host in range(3):
        say(endpoint, host, f'RESERVED_CPU="{HOST_CPU - 100}"')
    assert "needs 200 % of CPU as its floor" in merkat.why(
        'VCPU="2"\nMERKAT_MIN_CPU="200"\nMERKAT_BID_CPU="100"\n'
    )


# -- requirements ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requirement", "hosts"),
    [
        ('RACK = "r7"', [1]),
        ('RACK = "r*"', [1, 2]),
        ('RACK != "r7"', [2]),
        ('!(RACK = "r7")', [0, 2]),
        ("SLOTS > 3", [2]),
        ("SLOTS > 3 | RACK = r7", [1, 2]),
        ('TAGS @> "ssd"', [1]),
        ("FREE_CPU < 801 & SLOTS < 4", [1]),
        ('CLUSTER = "default" & SLOTS = 2', [1]),
    ],
)
def test_requirements_follow_oneds_language(
    endpoint: Endpoint, merkat: Merkat, requirement: str, hosts: list[int]
) -> None:
    """Globs, lists, negation and monitoring work; missing attributes make comparisons false."""
    say(endpoint, 1, 'RACK="r7"\nSLOTS="2"\nTAGS="hdd"\nTAGS="ssd"')
    say(endpoint, 2, 'RACK="r8"\nSLOTS="4"\nTAGS="hdd"')
    escaped = requirement.replace('"', '\\"')
    places = merkat.places(*[f'SCHED_REQUIREMENTS="{escaped}"\n'] * 3)
    assert set(places) == set(hosts), places


def test_requirements_without_a_suitable_host_are_reported(
    endpoint: Endpoint, merkat: Merkat
) -> None:
    """The message names the failing part and the facts; it is removed afterwards."""
    say(endpoint, 1, 'RACK="r7"')
    vm = endpoint.new(SMALL + 'SCHED_REQUIREMENTS="RACK = r9 & ID >= 0"\n')
    waits = merkat.new('SCHED_REQUIREMENTS="RACK > 9"\n')
    assert merkat.puts(vm, waits) == [None, None]
    assert "SCHED_REQUIREMENTS can't be understood: at character" in merkat.message(vm)
    assert merkat.message(waits) == (
        "no host satisfies SCHED_REQUIREMENTS RACK > 9: 2 hosts have no attribute RACK;"
        " existing values: 'r7'"
    )
    say(endpoint, 2, 'RACK="10"')
    assert merkat.puts(waits) == [2]
    merkat.period()
    assert merkat.message(waits) == ""


def test_requirements_can_name_another_vm(endpoint: Endpoint, merkat: Merkat) -> None:
    """CURRENT_VMS lists the VMs of the host."""
    first = endpoint.running(1)
    assert merkat.places(
        f'SCHED_REQUIREMENTS="CURRENT_VMS = {first}"\n',
        f'SCHED_REQUIREMENTS="CURRENT_VMS != {first}"\n',
    ) in ([1, 0], [1, 2])


def test_oneds_own_requirements_hold_too(endpoint: Endpoint, merkat: Merkat) -> None:
    """A host for pinned VMs takes no other VM."""
    say(endpoint, 0, 'PIN_POLICY="PINNED"')
    assert 0 not in merkat.places("", "", "")


# -- preferences ----------------------------------------------------------------------------------


def test_rank_decides_between_equal_hosts(endpoint: Endpoint, merkat: Merkat) -> None:
    """Empty hosts are equal; an invalid rank is reported and ignored."""
    say(endpoint, 2, 'SPEED="9"')
    assert merkat.places('SCHED_RANK="SPEED"\n') == [2]
    wrong = endpoint.new(SMALL + 'SCHED_RANK="SPEED -"\n')
    assert merkat.puts(wrong) != [None]
    assert "SCHED_RANK can't be understood and is ignored" in merkat.message(wrong)


def test_priority_decides_which_vm_is_first(merkat: Merkat) -> None:
    """The hosts have room for three of four."""
    urgent = MOST_OF_A_HOST + 'USER_PRIORITY="5"\n'
    places = merkat.places(MOST_OF_A_HOST, MOST_OF_A_HOST, MOST_OF_A_HOST, urgent)
    assert (places.count(None), places[3] is None) == (1, False)


# -- VMs that must stay, and VMs that must move ---------------------------------------------------


def test_a_held_vm_is_not_deployed(endpoint: Endpoint, merkat: Merkat) -> None:
    """It is deployed after its owner releases it."""
    vm = endpoint.new(hold=True)
    merkat.period()
    assert endpoint.state(vm) == HOLD
    endpoint.ok("one.vm.action", "release", vm)
    assert merkat.puts(vm) != [None]


@pytest.mark.parametrize("strategy", ["tabu", "paper"])
def test_a_vm_with_resched_migrates(endpoint: Endpoint, strategy: str) -> None:
    """Every strategy moves it to another host; the flag is cleared afterwards."""
    merkat = Merkat(endpoint, markets=(MarketRules(strategy=strategy),))
    vm = endpoint.running(1)
    endpoint.ok("one.vm.action", "resched", vm)
    merkat.period()
    endpoint.until(lambda: 1 not in endpoint.charged(), "the migration")
    endpoint.reaches(vm, RUNNING)
    assert merkat.host_of(vm) != 1
    assert endpoint.xml("one.vm.info", vm).findtext("RESCHED") == "0"
    merkat.close()


@pytest.mark.parametrize("mark", ['ONEDRS_BLOCKED="YES"', 'MERKAT_PINNED="YES"'])
def test_blocked_and_pinned_vms_never_migrate(
    endpoint: Endpoint, merkat: Merkat, mark: str
) -> None:
    """They stay even if their host is flushed: disabled, with RESCHED on each VM."""
    vm, other = endpoint.running(1, f"{SMALL}{mark}\n"), endpoint.running(1)
    endpoint.ok("one.host.status", endpoint.hosts[1], DISABLED)
    for each in (vm, other):
        endpoint.ok("one.vm.action", "resched", each)
    merkat.period()
    endpoint.until(lambda: endpoint.charged().get(1) == (100, 512, 1), "the other's migration")
    endpoint.reaches(other, RUNNING)
    merkat.period()
    assert merkat.host_of(vm) == 1
    assert merkat.host_of(other) != 1
