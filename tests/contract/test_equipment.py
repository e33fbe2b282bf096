"""Equipment of hosts and clusters and the rights to use it, tested with whole periods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.contract.endpoint import SMALL
from tests.contract.merkat import say
from tests.contract.test_rights import ALL, DATASTORE, HOST, MANAGE, NET, ONE, USE
from tests.contract.ways import PENDING

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint
    from tests.contract.merkat import Merkat

_GROUP = 0x200000000


# -- equipment of hosts and clusters --------------------------------------------------------------


def test_pci_devices_are_given_once(endpoint: Endpoint, merkat: Merkat) -> None:
    """Each host has one device; its VM gets the address, and a fourth VM waits."""
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
    """They need a pinning host with enough cores on one node; OpenNebula counts them itself."""
    say(endpoint, 1, 'PIN_POLICY="PINNED"')
    pinned = 'VCPU="{}"\nTOPOLOGY=[PIN_POLICY="CORE"]\n'
    assert merkat.places(pinned.format(2), pinned.format(3), "") in ([1, 1, 0], [1, 1, 2])
    assert "NUMA nodes with the free cores, memory and huge pages" in merkat.why(pinned.format(9))


def test_pinned_vms_get_their_full_size(endpoint: Endpoint, merkat: Merkat) -> None:
    """OpenNebula gives them no less, whatever minimum their template names."""
    say(endpoint, 1, f'PIN_POLICY="PINNED"\nRESERVED_MEM="{6000 * 1024}"')
    pinned = (
        'CPU="1"\nMEMORY="7000"\nMERKAT_MIN_MEMORY="100"\nMERKAT_MAX_CPU="20"\n'
        'TOPOLOGY=[PIN_POLICY="CORE"]\n'
    )
    assert merkat.places(pinned) == [1]
    assert merkat.why(pinned).startswith("needs 7,000 MiB of memory as its floor; ")


def network(endpoint: Endpoint, addresses: int, cluster: int = -1) -> tuple[int, str]:
    """Create a network with this number of addresses and return its id and name."""
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
    """The next VM is told which network is full, and is placed once a lease is free."""
    oid, name = network(endpoint, 2)
    nic = f'NIC=[NETWORK_MODE="auto",SCHED_REQUIREMENTS="NAME = \\"{name}\\""]\n'
    vms = [endpoint.new(SMALL + nic) for _ in range(3)]
    places = merkat.puts(*vms)
    assert [host is None for host in places] == [False, False, True]
    assert f"network {name} has no lease left" in merkat.message(vms[2])
    assert _network(endpoint, oid, "USED_LEASES") == "2"
    shown = endpoint.xml("one.vm.info", vms[0])
    assert shown.findtext("TEMPLATE/NIC/NETWORK_ID") == str(oid)
    merkat.period()
    assert merkat.message(vms[2]) == f"NIC 0: network {name} has no free lease"
    endpoint.act(vms[0], "terminate", (6, 0))
    assert merkat.puts(vms[2]) != [None]


def test_a_recreated_vm_keeps_its_leases(endpoint: Endpoint, merkat: Merkat) -> None:
    """It waits with its leases and requests no others."""
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
    """A host of another cluster can't use them."""
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
            f" hosts; available: {name}"
        )
    finally:
        for host in (0, 1):
            endpoint.ok("one.cluster.addhost", 0, endpoint.hosts[host])


def test_system_datastores_must_have_room(merkat: Merkat) -> None:
    """A disk created on the host must fit; requirements choose the datastore."""
    disk = 'DISK=[TYPE="fs",FORMAT="raw",SIZE="{}"]\n'
    assert merkat.places(disk.format(100)) != [None]
    assert merkat.why(disk.format(2_000_000_000)).startswith("system datastore system: ")
    assert 'no system datastore satisfies SCHED_DS_REQUIREMENTS NAME = "fast"' in merkat.why(
        'SCHED_DS_REQUIREMENTS="NAME = fast"\n'
    )


# -- rights ---------------------------------------------------------------------------------------


def _group_without_rights(endpoint: Endpoint) -> int:
    """Create a group without the rights that new groups have."""
    own = int(endpoint.ok("one.group.allocate", endpoint.name()))
    for rule in endpoint.xml("one.acl.info"):
        if int(rule.findtext("USER") or "", 16) == _GROUP | own:
            endpoint.ok("one.acl.delrule", int(rule.findtext("ID") or ""))
    return own


def test_vms_are_placed_only_where_their_owner_has_rights(
    endpoint: Endpoint, merkat: Merkat
) -> None:
    """The message names each missing right: MANAGE on hosts, USE on datastores and networks."""
    own_group = _group_without_rights(endpoint)
    user, session = endpoint.user([own_group])
    name = session.split(":")[0]
    net, net_name = network(endpoint, 5)
    vm = endpoint.new(
        SMALL + f'NIC=[NETWORK_MODE="auto",SCHED_REQUIREMENTS="NAME = \\"{net_name}\\""]\n'
    )
    endpoint.ok("one.vm.chown", vm, user, own_group)
    merkat.period()
    assert merkat.message(vm).startswith(f"user {name} may use none of 3 hosts (needs MANAGE on ")
    endpoint.allow(f"#{user}", HOST | ONE | endpoint.hosts[2], MANAGE)
    merkat.period()
    assert merkat.message(vm) == f"user {name} may not use system datastore system (needs USE)"
    endpoint.allow(f"#{user}", DATASTORE | ALL, USE)
    merkat.period()
    assert merkat.message(vm) == f"NIC 0: user {name} may not use network {net_name} (needs USE)"
    endpoint.allow(f"#{user}", NET | ONE | net, USE)
    assert merkat.puts(vm) == [2]
