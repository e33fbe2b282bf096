"""What a correct scheduler honours: each constraint by a whole period of Merkat's on each endpoint.

Who can't be placed is told which constraint that is, and what would satisfy it.
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
"""Its bid pays for what it claims."""


# -- hosts ----------------------------------------------------------------------------------------


def test_hosts_that_take_no_vms(endpoint: Endpoint, merkat: Merkat) -> None:
    """Neither those that are disabled nor those that are offline."""
    endpoint.ok("one.host.status", endpoint.hosts[0], DISABLED)
    endpoint.ok("one.host.status", endpoint.hosts[1], OFFLINE)
    assert merkat.places("", "", "") == [2, 2, 2]
    endpoint.ok("one.host.status", endpoint.hosts[2], DISABLED)
    assert merkat.why("") == "no host of market default takes VMs now"


def test_what_is_reserved_is_not_the_markets(endpoint: Endpoint, merkat: Merkat) -> None:
    """RESERVED_MEM and RESERVED_CPU: a VM waits that needs it for its floor, or at its start."""
    for host in (0, 1):
        say(endpoint, host, f'RESERVED_MEM="{6000 * 1024}"')
    assert merkat.places(MOST_OF_A_HOST, "") == [2, 0]
    assert merkat.why(MOST_OF_A_HOST).startswith(
        f"needs {HOST_MIB - 5000:,} memory as its floor; of 1 hosts that may take it"
    )
    for host in range(3):
        say(endpoint, host, f'RESERVED_CPU="{HOST_CPU - 100}"')
    assert "needs 200 cpu as its floor" in merkat.why(
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
def test_requirements_are_oneds_language(
    endpoint: Endpoint, merkat: Merkat, requirement: str, hosts: list[int]
) -> None:
    """Globs, lists, negation, monitoring; what a host doesn't say makes comparisons false."""
    say(endpoint, 1, 'RACK="r7"\nSLOTS="2"\nTAGS="hdd"\nTAGS="ssd"')
    say(endpoint, 2, 'RACK="r8"\nSLOTS="4"\nTAGS="hdd"')
    escaped = requirement.replace('"', '\\"')
    places = merkat.places(*[f'SCHED_REQUIREMENTS="{escaped}"\n'] * 3)
    assert set(places) == set(hosts), places


def test_requirements_that_nobody_meets(endpoint: Endpoint, merkat: Merkat) -> None:
    """The part that fails is named, with what there is; when it is met the words are gone."""
    say(endpoint, 1, 'RACK="r7"')
    vm = endpoint.new(SMALL + 'SCHED_REQUIREMENTS="RACK = r9 & ID >= 0"\n')
    waits = merkat.new('SCHED_REQUIREMENTS="RACK > 9"\n')
    assert merkat.puts(vm, waits) == [None, None]
    assert "SCHED_REQUIREMENTS can't be understood: at character" in merkat.said(vm)
    assert merkat.said(waits) == (
        "no host satisfies SCHED_REQUIREMENTS RACK > 9: 2 hosts have no attribute RACK;"
        " existing values: 'r7'"
    )
    say(endpoint, 2, 'RACK="10"')
    assert merkat.puts(waits) == [2]
    merkat.period()
    assert merkat.said(waits) == ""


def test_beside_another_vm_or_not(endpoint: Endpoint, merkat: Merkat) -> None:
    """CURRENT_VMS is what the host has."""
    first = endpoint.running(1)
    assert merkat.places(
        f'SCHED_REQUIREMENTS="CURRENT_VMS = {first}"\n',
        f'SCHED_REQUIREMENTS="CURRENT_VMS != {first}"\n',
    ) in ([1, 0], [1, 2])


def test_oneds_own_requirements_hold_too(endpoint: Endpoint, merkat: Merkat) -> None:
    """A host for pinned VMs takes no other."""
    say(endpoint, 0, 'PIN_POLICY="PINNED"')
    assert 0 not in merkat.places("", "", "")


# -- preferences ----------------------------------------------------------------------------------


def test_rank_breaks_ties(endpoint: Endpoint, merkat: Merkat) -> None:
    """Empty hosts are equally good; one that can't be understood is remarked, and ignored."""
    say(endpoint, 2, 'SPEED="9"')
    assert merkat.places('SCHED_RANK="SPEED"\n') == [2]
    wrong = endpoint.new(SMALL + 'SCHED_RANK="SPEED -"\n')
    assert merkat.puts(wrong) != [None]
    assert "SCHED_RANK can't be understood and is ignored" in merkat.said(wrong)


def test_priority_says_who_is_first(merkat: Merkat) -> None:
    """There is room for three of four."""
    urgent = MOST_OF_A_HOST + 'USER_PRIORITY="5"\n'
    places = merkat.places(MOST_OF_A_HOST, MOST_OF_A_HOST, MOST_OF_A_HOST, urgent)
    assert (places.count(None), places[3] is None) == (1, False)


# -- what may not be touched, and what must move --------------------------------------------------


def test_a_held_vm_is_not_deployed(endpoint: Endpoint, merkat: Merkat) -> None:
    """Until its owner lets it go."""
    vm = endpoint.new(hold=True)
    merkat.period()
    assert endpoint.state(vm) == HOLD
    endpoint.ok("one.vm.action", "release", vm)
    assert merkat.puts(vm) != [None]


@pytest.mark.parametrize("strategy", ["tabu", "paper"])
def test_a_vm_that_is_to_be_rescheduled_moves(endpoint: Endpoint, strategy: str) -> None:
    """To another host, whoever decides; the mark is gone then."""
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
def test_who_never_moves(endpoint: Endpoint, merkat: Merkat, mark: str) -> None:
    """Not even when its host is flushed: disabled, with RESCHED set on each of its VMs."""
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
