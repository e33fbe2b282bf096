"""What a correct scheduler honours: each constraint by a whole period of Merkat's on each endpoint.

Who can't be placed is told which constraint that is, and what would satisfy it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from merkatd.scheduler.settings import Market

from .endpoint import HOST_CPU, HOST_MIB, SMALL
from .merkat import Merkat
from .test_rights import ALL, DATASTORE, HOST, MANAGE, NET, ONE, USE
from .ways import HOLD, PENDING, RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .endpoint import Endpoint

DISABLED, OFFLINE = 1, 2
_GROUP = 0x200000000
MOST_OF_A_HOST = f'CPU="1"\nMEMORY="{HOST_MIB - 1000}"\nMERKAT_MIN_MEMORY="{HOST_MIB - 5000}"\n'


@pytest.fixture
def merkat(endpoint: Endpoint) -> Iterator[Merkat]:
    """On three hosts that are alike."""
    made = Merkat(endpoint)
    yield made
    made.close()


def say(endpoint: Endpoint, host: int, words: str) -> None:
    """Write something into the template of the host with this number among ours."""
    endpoint.ok("one.host.update", endpoint.hosts[host], words, 1)


# -- hosts ----------------------------------------------------------------------------------------


def test_hosts_that_take_no_vms(endpoint: Endpoint, merkat: Merkat) -> None:
    """Neither those that are disabled nor those that are offline."""
    endpoint.ok("one.host.status", endpoint.hosts[0], DISABLED)
    endpoint.ok("one.host.status", endpoint.hosts[1], OFFLINE)
    assert merkat.places("", "", "") == [2, 2, 2]
    endpoint.ok("one.host.status", endpoint.hosts[2], DISABLED)
    assert merkat.why("") == "no host of market default takes VMs now"


def test_what_is_reserved_is_not_the_markets(endpoint: Endpoint, merkat: Merkat) -> None:
    """RESERVED_MEM and RESERVED_CPU: a VM whose floor needs it waits."""
    for host in (0, 1):
        say(endpoint, host, f'RESERVED_MEM="{6000 * 1024}"')
    assert merkat.places(MOST_OF_A_HOST, "") == [2, 0]
    assert merkat.why(MOST_OF_A_HOST).startswith(
        f"needs {HOST_MIB - 5000:,} memory as its floor; of 3 hosts that may take it"
    )
    for host in range(3):
        say(endpoint, host, f'RESERVED_CPU="{HOST_CPU - 100}"')
    assert "needs 200 cpu as its floor" in merkat.why('VCPU="2"\nMERKAT_MIN_CPU="200"\n')


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
        " there is RACK 'r7'"
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
    assert "SCHED_RANK can't be understood and is not considered" in merkat.said(wrong)


def test_priority_says_who_is_first(merkat: Merkat) -> None:
    """There is room for three of four."""
    urgent = MOST_OF_A_HOST + 'USER_PRIORITY="5"\n'
    places = merkat.places(MOST_OF_A_HOST, MOST_OF_A_HOST, MOST_OF_A_HOST, urgent)
    assert (places.count(None), places[3] is None) == (1, False)


# -- VM groups ------------------------------------------------------------------------------------


def group(endpoint: Endpoint, words: str) -> int:
    """A new VM group."""
    return int(endpoint.ok("one.vmgroup.allocate", f'NAME="{endpoint.name()}"\n{words}'))


def member(oid: int, role: str) -> str:
    """What makes a VM a member."""
    return f'VMGROUP=[VMGROUP_ID="{oid}",ROLE="{role}"]\n'


@pytest.mark.parametrize(("policy", "hosts"), [("ANTI_AFFINED", 3), ("AFFINED", 1)])
def test_members_of_a_role(endpoint: Endpoint, merkat: Merkat, policy: str, hosts: int) -> None:
    """Apart, or together."""
    oid = group(endpoint, f'ROLE=[NAME="web",POLICY="{policy}"]')
    places = merkat.places(*[member(oid, "web")] * 3)
    assert None not in places
    assert len(set(places)) == hosts


def test_more_members_apart_than_hosts(endpoint: Endpoint, merkat: Merkat) -> None:
    """The fourth waits, and is told whose rule it is."""
    oid = group(endpoint, 'ROLE=[NAME="web",POLICY="ANTI_AFFINED"]')
    assert None not in merkat.places(*[member(oid, "web")] * 3)
    assert "leaves none of 3 hosts" in merkat.why(member(oid, "web"))


def test_roles_apart_from_each_other(endpoint: Endpoint, merkat: Merkat) -> None:
    """And together with each other."""
    words = "".join(f'ROLE=[NAME="{name}"]\n' for name in "abcd")
    oid = group(endpoint, words + 'ANTI_AFFINED="a,b"\nAFFINED="c,d"\n')
    a, b, c, d = merkat.places(*(member(oid, name) for name in "abcd"))
    assert None not in {a, b, c}
    assert a != b
    assert c == d


def test_hosts_of_a_role(endpoint: Endpoint, merkat: Merkat) -> None:
    """HOST_AFFINED and HOST_ANTI_AFFINED; who can be nowhere is told."""
    first, second, _ = endpoint.hosts
    oid = group(
        endpoint,
        f'ROLE=[NAME="here",HOST_AFFINED="{second}"]\n'
        f'ROLE=[NAME="there",HOST_ANTI_AFFINED="{first},{second}"]\n',
    )
    assert merkat.places(*[member(oid, "here")] * 2, member(oid, "there")) == [1, 1, 2]
    endpoint.ok("one.host.status", second, DISABLED)
    nowhere = SMALL + member(oid, "here") + f'SCHED_REQUIREMENTS="ID = {first}"\n'
    vm = endpoint.new(nowhere)
    assert merkat.puts(vm) == [None]
    assert "its role's HOST_AFFINED and HOST_ANTI_AFFINED allow none" in merkat.said(vm)


# -- what hosts and clusters have -----------------------------------------------------------------


def test_pci_devices_are_given_once(endpoint: Endpoint, merkat: Merkat) -> None:
    """Each host has one of these; its VM is told where it is; the fourth waits for one."""
    wants = 'PCI=[VENDOR="10de",DEVICE="0863"]\n'
    vms = [endpoint.new(SMALL + wants) for _ in range(3)]
    assert sorted(map(str, merkat.puts(*vms))) == ["0", "1", "2"]
    shown = endpoint.xml("one.vm.info", vms[0])
    assert shown.findtext("TEMPLATE/PCI/SHORT_ADDRESS") == "02:00.0"
    assert merkat.why(wants) == "none of 3 hosts has a free PCI device for vendor 10de, device 0863"
    endpoint.act(vms[1], "terminate", (6, 0))
    merkat.period()
    assert merkat.why('PCI=[VENDOR="ffff"]\n').endswith("a free PCI device for vendor ffff")


def test_pinned_vms_get_whole_cores(endpoint: Endpoint, merkat: Merkat) -> None:
    """On a host that pins, with so many cores on one node; OpenNebula enforces its own account."""
    say(endpoint, 1, 'PIN_POLICY="PINNED"')
    pinned = 'VCPU="{}"\nTOPOLOGY=[PIN_POLICY="CORE"]\n'
    assert merkat.places(pinned.format(2), pinned.format(3), "") in ([1, 1, 0], [1, 1, 2])
    assert "NUMA nodes with the cores, memory and huge pages free" in merkat.why(pinned.format(9))


def test_pinned_vms_have_their_full_size(endpoint: Endpoint, merkat: Merkat) -> None:
    """OpenNebula gives them no less, whatever their template says that they could do with."""
    say(endpoint, 1, f'PIN_POLICY="PINNED"\nRESERVED_MEM="{6000 * 1024}"')
    pinned = (
        'CPU="1"\nMEMORY="7000"\nMERKAT_MIN_MEMORY="100"\nMERKAT_MAX_CPU="20"\n'
        'TOPOLOGY=[PIN_POLICY="CORE"]\n'
    )
    assert merkat.places(pinned) == [1]
    assert merkat.why(pinned).startswith("needs 7,000 memory as its floor; ")


def network(endpoint: Endpoint, addresses: int, cluster: int = -1) -> tuple[int, str]:
    """A new network with so many addresses, and its name."""
    name = endpoint.name()
    oid = endpoint.ok(
        "one.vn.allocate",
        f'NAME="{name}"\nVN_MAD="dummy"\nBRIDGE="br0"\n'
        f'AR=[TYPE="IP4",IP="10.0.0.1",SIZE="{addresses}"]\n',
        cluster,
    )
    endpoint.until(lambda: _network(endpoint, oid, "STATE") == "1", "the network made")
    return oid, name


def _network(endpoint: Endpoint, oid: int, path: str) -> str | None:
    return endpoint.pool("one.vnpool.info", -2, -1, -1)[oid].findtext(path)


def test_automatic_nics_get_leases(endpoint: Endpoint, merkat: Merkat) -> None:
    """As many as there are; the next is told which network is full, and served when it isn't."""
    oid, name = network(endpoint, 2)
    nic = f'NIC=[NETWORK_MODE="auto",SCHED_REQUIREMENTS="NAME = \\"{name}\\""]\n'
    vms = [endpoint.new(SMALL + nic) for _ in range(3)]
    places = merkat.puts(*vms)
    assert [host is None for host in places] == [False, False, True]
    assert f"network {name} has no lease left" in merkat.said(vms[2])
    assert _network(endpoint, oid, "USED_LEASES") == "2"
    shown = endpoint.xml("one.vm.info", vms[0])
    assert shown.findtext("TEMPLATE/NIC/NETWORK_ID") == str(oid)
    merkat.period()
    assert merkat.said(vms[2]) == f"NIC 0: network {name} has no free lease"
    endpoint.act(vms[0], "terminate", (6, 0))
    assert merkat.puts(vms[2]) != [None]


def test_a_vm_that_is_made_anew_keeps_its_leases(endpoint: Endpoint, merkat: Merkat) -> None:
    """Recreated it waits with them, and they are not asked for again."""
    oid, name = network(endpoint, 1)
    vm = endpoint.new(
        SMALL + f'NIC=[NETWORK_MODE="auto",SCHED_REQUIREMENTS="NAME = \\"{name}\\""]\n'
    )
    assert merkat.puts(vm) != [None]
    endpoint.ok("one.vm.recover", vm, 4)
    endpoint.reaches(vm, PENDING)
    assert merkat.puts(vm) != [None]
    assert _network(endpoint, oid, "USED_LEASES") == "1"


def test_networks_are_in_clusters(endpoint: Endpoint, merkat: Merkat) -> None:
    """A host of another cluster can't have them."""
    cluster = endpoint.ok("one.cluster.allocate", endpoint.name())
    _, name = network(endpoint, 9)
    nic = f'NIC=[NETWORK_MODE="auto",SCHED_REQUIREMENTS="NAME = \\"{name}\\""]\n'
    for host in (0, 1):
        endpoint.ok("one.cluster.addhost", cluster, endpoint.hosts[host])
    try:
        assert merkat.places(nic, nic) == [2, 2]
        ids = " | ".join(f"ID = {endpoint.hosts[host]}" for host in (0, 1))
        anywhere = f'{nic}SCHED_REQUIREMENTS="{ids}"\n'
        assert merkat.why(anywhere) == (
            "system datastore system is not in the cluster of any of the 2 hosts it could be on"
        )
        endpoint.ok("one.cluster.adddatastore", cluster, 0)
        assert merkat.why(anywhere) == (
            "each of 1 automatic NICs needs a network of its own in the cluster of one of 2"
            f" hosts; there is {name}"
        )
    finally:
        for host in (0, 1):
            endpoint.ok("one.cluster.addhost", 0, endpoint.hosts[host])


def test_room_on_system_datastores(merkat: Merkat) -> None:
    """A disk that is made where the VM runs has to fit; requirements choose the datastore."""
    disk = 'DISK=[TYPE="fs",FORMAT="raw",SIZE="{}"]\n'
    assert merkat.places(disk.format(100)) != [None]
    assert merkat.why(disk.format(2_000_000_000)).startswith("system datastore system: ")
    assert 'no system datastore satisfies SCHED_DS_REQUIREMENTS NAME = "fast"' in merkat.why(
        'SCHED_DS_REQUIREMENTS="NAME = fast"\n'
    )


# -- rights ---------------------------------------------------------------------------------------


def _group_without_rights(endpoint: Endpoint) -> int:
    """A new group that may not use what every new group may."""
    own = int(endpoint.ok("one.group.allocate", endpoint.name()))
    for rule in endpoint.xml("one.acl.info"):
        if int(rule.findtext("USER") or "", 16) == _GROUP | own:
            endpoint.ok("one.acl.delrule", int(rule.findtext("ID") or ""))
    return own


def test_only_where_the_owner_may_be(endpoint: Endpoint, merkat: Merkat) -> None:
    """MANAGE on the host, USE on the datastore and the network: each missing one is named."""
    own_group = _group_without_rights(endpoint)
    user, session = endpoint.user([own_group])
    name = session.split(":")[0]
    net, net_name = network(endpoint, 5)
    vm = endpoint.new(
        SMALL + f'NIC=[NETWORK_MODE="auto",SCHED_REQUIREMENTS="NAME = \\"{net_name}\\""]\n'
    )
    endpoint.ok("one.vm.chown", vm, user, own_group)
    merkat.period()
    assert merkat.said(vm).startswith(f"user {name} may use none of 3 hosts (needs MANAGE on ")
    endpoint.allow(f"#{user}", HOST | ONE | endpoint.hosts[2], MANAGE)
    merkat.period()
    assert merkat.said(vm) == f"user {name} may not use system datastore system (needs USE)"
    endpoint.allow(f"#{user}", DATASTORE | ALL, USE)
    merkat.period()
    assert merkat.said(vm) == f"NIC 0: user {name} may not use network {net_name} (needs USE)"
    endpoint.allow(f"#{user}", NET | ONE | net, USE)
    assert merkat.puts(vm) == [2]


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
    merkat = Merkat(endpoint, markets=(Market(strategy=strategy),))
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
    """Neither off a disabled host nor where somebody wants it rescheduled."""
    vm, other = endpoint.running(1, f"{SMALL}{mark}\n"), endpoint.running(1)
    endpoint.ok("one.vm.action", "resched", vm)
    endpoint.ok("one.host.status", endpoint.hosts[1], DISABLED)
    merkat.period()
    endpoint.until(lambda: endpoint.charged().get(1) == (100, 512, 1), "the other's migration")
    endpoint.reaches(other, RUNNING)
    merkat.period()
    assert merkat.host_of(vm) == 1
    assert merkat.host_of(other) != 1
