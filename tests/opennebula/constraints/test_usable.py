"""What a VM's owner may use, and has room for: hosts, datastores, networks."""

from typing import Any

import pytest

from merkatd.opennebula.constraints import LET_ONED_CHOOSE, judge_feasibility
from merkatd.opennebula.constraints.host_requirements import requirement_constraint
from merkatd.opennebula.pools.constraint_facts import (
    AccessRule,
    DiskLocation,
    NicWant,
    SiteFacts,
    VmRequirements,
)
from tests.opennebula.constraints.clouds import (
    Vm,
    datastore,
    host,
    names,
    network,
    users,
    where,
    why,
)

HOSTS = [
    host(0, says={"ARCH": "x86", "CORES": 8}),
    host(1, says={"ARCH": "arm", "CORES": 16}, vms=frozenset({7})),
    host(2, cluster=1, says={"CORES": 32}),
]


INDIVIDUAL, GROUP, EVERYBODY, IN_CLUSTER = 1 << 32, 2 << 32, 4 << 32, 8 << 32
HOST, NET, STORE = 0x2000000000, 0x4000000000, 0x100000000000
ANY_ZONE = EVERYBODY


def rule(user: int, resource: int, rights: int = 2, zone: int = ANY_ZONE) -> AccessRule:
    """A rule, by its four numbers."""
    return AccessRule(0, user, resource, rights, zone)


class TestRights:
    @pytest.mark.parametrize(
        ("acl", "left"),
        [
            (rule(EVERYBODY, HOST | EVERYBODY), ["h0", "h1", "h2"]),
            (rule(INDIVIDUAL | 2, HOST | EVERYBODY), ["h0", "h1", "h2"]),
            (rule(GROUP | 100, HOST | EVERYBODY), ["h0", "h1", "h2"]),
            (rule(GROUP | 101, HOST | EVERYBODY), []),
            (rule(INDIVIDUAL | 3, HOST | EVERYBODY), []),
            (rule(EVERYBODY, HOST | INDIVIDUAL | 1), ["h1"]),
            (rule(EVERYBODY, HOST | IN_CLUSTER | 1), ["h2"]),
            (rule(EVERYBODY, HOST | NET | IN_CLUSTER | 1), ["h2"]),
            (rule(EVERYBODY, NET | EVERYBODY), []),
            (rule(EVERYBODY, HOST | EVERYBODY, rights=1), []),
            (rule(EVERYBODY, HOST | EVERYBODY, rights=7), ["h0", "h1", "h2"]),
            (rule(EVERYBODY, HOST | EVERYBODY, zone=INDIVIDUAL | 0), ["h0", "h1", "h2"]),
            (rule(EVERYBODY, HOST | EVERYBODY, zone=INDIVIDUAL | 9), []),
        ],
    )
    def test_a_rule_lets_somebody_use_hosts(self, acl: AccessRule, left: list[str]) -> None:
        """By user, group or everybody; host, cluster or all; in this zone or any."""
        assert where(HOSTS, users(acl), owner=2, group=100) == left

    @pytest.mark.parametrize(("owner", "group"), [(0, 100), (2, 0)])
    def test_nothing_is_asked_for_administrators(self, owner: int, group: int) -> None:
        """The user oneadmin, and VMs of the group oneadmin."""
        assert where(HOSTS, users(), owner=owner, group=group) == ["h0", "h1", "h2"]

    def test_nothing_is_asked_where_nobody_is_known(self) -> None:
        """An account that may not read users can't judge them."""
        assert where(HOSTS, SiteFacts(), owner=2, group=100) == ["h0", "h1", "h2"]

    def test_a_user_who_is_gone_has_no_rights(self) -> None:
        """Though others of the group have."""
        assert where(HOSTS, users(rule(EVERYBODY, HOST | EVERYBODY)), owner=99, group=1) == []

    def test_who_may_not_is_named(self) -> None:
        """With the right that is missing."""
        assert why(HOSTS[:1], users(), owner=2, group=100) == (
            "user alice may not use host h0 (needs MANAGE)"
        )
        assert why(HOSTS, users(), owner=3, group=1) == (
            "user bob may use none of 3 hosts (needs MANAGE on h0, h1, h2)"
        )

    @pytest.mark.parametrize(
        ("bits", "owner", "group", "may"),
        [
            (0o400, 2, 0, True),
            (0o400, 3, 0, False),
            (0o040, 3, 100, True),
            (0o040, 3, 5, False),
            (0o004, 3, 5, True),
            (0o200, 2, 0, False),
        ],
    )
    def test_permissions_of_a_datastore(self, bits: int, owner: int, group: int, may: bool) -> None:
        """Its owner's, its group's and others' USE."""
        store = datastore(0, "ssd", owner=owner, group=group, permissions=bits)
        estate = users(rule(EVERYBODY, HOST | EVERYBODY), datastores=[store])
        assert where(HOSTS[:2], estate, owner=2, group=100) == (["h0", "h1"] if may else [])
        if not may:
            assert why(HOSTS[:2], estate, owner=2, group=100) == (
                "user alice may not use system datastore ssd (needs USE)"
            )


class TestDatastores:
    def test_the_hosts_cluster_counts(self) -> None:
        """And the datastore is named for each host."""
        estate = SiteFacts(
            datastores=[datastore(5, "a"), datastore(6, "b", clusters=frozenset({1}))]
        )
        judged = judge_feasibility([Vm()], HOSTS, estate)
        assert [judged.datastore_of(0, row) for row in range(3)] == [5, 5, 6]
        assert where(HOSTS, SiteFacts(datastores=[datastore(5, "a")])) == ["h0", "h1"]

    def test_a_cloud_of_which_no_datastore_is_known(self) -> None:
        """Oned chooses."""
        judged = judge_feasibility([Vm()], HOSTS, SiteFacts())
        assert judged.datastore_of(0, 0) == LET_ONED_CHOOSE

    def test_where_none_is_in_reach(self) -> None:
        """The words name them."""
        estate = SiteFacts(datastores=[datastore(5, "far", clusters=frozenset({9}))])
        assert why(HOSTS, estate) == (
            "system datastore far is not in the cluster of any of the 3 hosts it could be on"
        )

    @pytest.mark.parametrize(
        ("others", "reason"),
        [
            ({"free_mib": 10240}, "system datastore s: 10.0 GiB free, 40.0 GiB needed"),
            ({"free_mib": 40960}, "system datastore s: 40.0 GiB free, 40.0 GiB needed"),
            ({"free_mib": 0, "total_mib": 0}, "system datastore s is not monitored"),
            ({"usable": False}, "no system datastore is ready"),
            ({"kind": 0}, "no system datastore is ready"),
            ({"shared": False}, "system datastore s: at most 20.0 GiB free on a host, 40.0 GiB"),
        ],
    )
    def test_state_kind_and_room(self, others: dict[str, object], reason: str) -> None:
        """Something must be left over, as oned asks it."""
        hosts = [host(0, disk_mib=20480.0), host(1, datastore_mib={0: 10240.0})]
        estate = SiteFacts(datastores=[datastore(0, "s", **others)])  # type: ignore[arg-type]
        assert why(hosts, estate, wants=VmRequirements(system_mib=40960)).startswith(reason)

    def test_local_space_is_the_hosts(self) -> None:
        """What it says of that datastore, or of its disks."""
        hosts = [host(0, disk_mib=100.0), host(1, disk_mib=9.0, datastore_mib={0: 50.0}), host(2)]
        estate = SiteFacts(datastores=[datastore(0, "ssh", shared=False)])
        assert where(hosts, estate, wants=VmRequirements(system_mib=20)) == ["h0", "h1"]
        assert where(hosts, estate, wants=VmRequirements()) == ["h0", "h1", "h2"]

    def test_requirements_and_rank_choose(self) -> None:
        """Of those that are left the highest rank, then the most space."""
        stores = [
            datastore(0, "slow", 900),
            datastore(1, "fast", 500, values={"SPEED": ["9"]}),
            datastore(2, "big", 990),
        ]
        estate = SiteFacts(datastores=stores)

        def chosen(**wants: Any) -> int:
            return judge_feasibility(
                [Vm(wants=VmRequirements(**wants))], HOSTS[:1], estate
            ).datastore_of(0, 0)

        assert chosen() == 2
        assert chosen(rank_ds="SPEED") == 1
        assert chosen(requirements_ds='NAME = "slow"') == 0
        assert chosen(automatic_ds='"CLUSTERS/ID" @> 0') == 2
        wants = VmRequirements(requirements_ds="SPEED > 20")
        assert why(HOSTS, estate, wants=wants) == (
            "no system datastore satisfies SCHED_DS_REQUIREMENTS SPEED > 20: 2 system datastores"
            " have no attribute SPEED; existing values: '9'"
        )

    def test_a_vm_that_moves_keeps_its_own(self) -> None:
        """Its disks are there already: no room is needed, but the host must reach it."""
        stores = [datastore(0, "full", 1.0), datastore(1, "other")]
        estate = SiteFacts(datastores=stores)
        vm = {"wants": VmRequirements(system_mib=40960), "stay": DiskLocation(0, running=True)}
        assert where(HOSTS, estate, **vm) == ["h0", "h1"]
        judged = judge_feasibility([Vm(**vm)], HOSTS, estate)  # type: ignore[arg-type]
        assert judged.datastore_of(0, 0) == 0

    def test_images_need_room_too(self) -> None:
        """Where they are cloned in place."""
        estate = SiteFacts(datastores=[datastore(0, "s"), datastore(1, "images", 2048, kind=0)])
        assert where(HOSTS[:1], estate, wants=VmRequirements(image_mib=((1, 1024),))) == ["h0"]
        assert why(HOSTS, estate, wants=VmRequirements(image_mib=((1, 4096),))) == (
            "image datastore images: 2.0 GiB free, 4.0 GiB needed"
        )
        assert "image datastore 8 does not exist" in (
            why(HOSTS, estate, wants=VmRequirements(image_mib=((8, 1),)))
        )

    @pytest.mark.parametrize("running", [True, False])
    def test_images_that_a_vm_has_need_no_room_again(self, running: bool) -> None:
        """A VM that has disks may go anywhere though the image datastore is full, or gone."""
        estate = SiteFacts(datastores=[datastore(0, "s"), datastore(1, "images", 10, kind=0)])
        for image in (1, 8):
            wants = VmRequirements(image_mib=((image, 4096),))
            assert where(HOSTS[:1], estate, wants=wants, stay=DiskLocation(0, running=running)) == [
                "h0"
            ]
            assert where(HOSTS[:1], estate, wants=wants) == []


class TestNetworks:
    NETS = (
        network(0, "red", 3),
        network(1, "blue", 5, values={"VLAN": ["7"]}),
        network(2, "far", 9, clusters=frozenset({1})),
        network(3, "used", 0, clusters=frozenset({0, 1})),
    )

    def chosen(self, *nics: NicWant) -> list[tuple[tuple[int, int], ...]]:
        """On each host, which network each NIC gets."""
        wants = VmRequirements(nics=nics)
        judged = judge_feasibility([Vm(wants=wants)], HOSTS, SiteFacts(networks=self.NETS))
        left = names(judged, HOSTS, 0)
        return [judged.networks_of(0, row) for row, one in enumerate(HOSTS) if one.name in left]

    def test_the_most_leases_in_the_hosts_cluster(self) -> None:
        """By default OpenNebula spreads."""
        assert self.chosen(NicWant(4)) == [((4, 1),), ((4, 1),), ((4, 2),)]

    def test_rank_and_requirements(self) -> None:
        """Of each NIC."""
        assert self.chosen(NicWant(0, rank="- ID")) == [((0, 0),), ((0, 0),), ((0, 2),)]
        assert self.chosen(NicWant(0, requirements="VLAN = 7")) == [((0, 1),)] * 2

    def test_each_nic_has_a_network_of_its_own(self) -> None:
        """Only the first two hosts' cluster has two with leases."""
        assert self.chosen(NicWant(0), NicWant(1)) == [((0, 1), (1, 0))] * 2
        wants = VmRequirements(nics=tuple(NicWant(nic) for nic in range(3)))
        assert "each of 3 automatic NICs needs a network of its own" in (
            why(HOSTS, SiteFacts(networks=self.NETS), wants=wants)
        )

    def test_more_nics_than_networks(self) -> None:
        """Such a VM is refused at once, and the message says how many there are."""
        wants = VmRequirements(nics=tuple(NicWant(nic) for nic in range(4)))
        assert why(HOSTS, SiteFacts(networks=self.NETS), wants=wants) == (
            "each of 4 automatic NICs needs a network of its own; no cluster has more than 3"
            " networks"
        )

    def test_what_many_nics_ask_alike_is_found_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """However many VMs and NICs say the same, one question is asked of the networks."""
        asked: list[str] = []

        def counted(name: str, text: str, *rest: Any) -> Any:
            asked.append(text)
            return requirement_constraint(name, text, *rest)

        monkeypatch.setattr(
            "merkatd.opennebula.constraints.networks.requirement_constraint", counted
        )
        nets = [network(row, f"n{row}", values={"VLAN": [str(row)]}) for row in range(9)]
        vms = [
            Vm(
                vm,
                wants=VmRequirements(
                    nics=tuple(NicWant(nic, f"VLAN > {nic % 2}") for nic in range(6)),
                    requirements=f"CORES > {vm}",
                ),
            )
            for vm in range(3)
        ]
        vms.append(
            Vm(9, wants=VmRequirements(nics=(NicWant(3, "VLAN > 1"), NicWant(4, "VLAN < 1"))))
        )
        judged = judge_feasibility(vms, HOSTS, SiteFacts(networks=nets))
        assert sorted(asked) == ["VLAN < 1", "VLAN > 0", "VLAN > 1"]
        chosen = judged.networks_of(0, 0)
        assert chosen == ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6))
        assert judged.networks_of(3, 0) == ((3, 2), (4, 0))

    def test_no_lease(self) -> None:
        """The network is named."""
        estate = SiteFacts(networks=self.NETS[3:])
        assert why(HOSTS, estate, wants=VmRequirements(nics=(NicWant(0),))) == (
            "NIC 0: network used has no free lease"
        )

    def test_rights(self) -> None:
        """USE on the network."""
        estate = users(
            rule(EVERYBODY, HOST | EVERYBODY), networks=[network(0, "red", permissions=0o640)]
        )
        vm = {"owner": 2, "group": 100, "wants": VmRequirements(nics=(NicWant(0),))}
        assert why(HOSTS, estate, **vm) == ("NIC 0: user alice may not use network red (needs USE)")
