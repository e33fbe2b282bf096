"""Every constraint by itself: which hosts are left, and what is said when none is."""

import numpy as np
import pytest

from merkatd.cluster import RolePolicy
from merkatd.opennebula.honour import LET_ONED_CHOOSE, judge
from merkatd.opennebula.wanted import (
    AclRule,
    Device,
    Estate,
    GroupRule,
    Member,
    NicWant,
    Node,
    NumaWant,
    PciWant,
    Role,
    Stay,
    Wants,
)
from tests.opennebula.honour.clouds import Vm, datastore, host, names, network, users, where, why

HOSTS = [
    host(0, says={"ARCH": "x86", "CORES": 8}),
    host(1, says={"ARCH": "arm", "CORES": 16}, vms=frozenset({7})),
    host(2, cluster=1, says={"CORES": 32}),
]


class TestRequirements:
    def test_both_kinds_count(self) -> None:
        """What oned adds by itself, and what the user says."""
        wants = Wants(automatic="CORES > 8", requirements='NAME = "h*" & !(ARCH = "arm")')
        assert where(HOSTS, wants=wants) == ["h2"]

    def test_a_bracket_closed_too_early_frees_nobody(self) -> None:
        """Joined as texts, the user's part could do away with oned's."""
        wants = Wants(automatic="CORES > 100", requirements="CORES = 1) | (CORES > 0")
        assert where(HOSTS, wants=wants) == []

    def test_vms_beside_others(self) -> None:
        """CURRENT_VMS is what the host has."""
        assert where(HOSTS, wants=Wants(requirements="CURRENT_VMS = 7")) == ["h1"]
        assert where(HOSTS, wants=Wants(requirements="CURRENT_VMS != 7")) == ["h0", "h2"]

    def test_what_nobody_satisfies_is_named_with_what_there_is(self) -> None:
        """The part of a conjunction, who lacks the attribute, what the others say."""
        wants = Wants(automatic="CORES > 0", requirements='CORES > 1 & ARCH = "gpu"')
        assert why(HOSTS, wants=wants) == (
            'no host satisfies SCHED_REQUIREMENTS ARCH = "gpu": 1 host has no attribute ARCH;'
            " there is ARCH 'arm', 'x86'"
        )

    def test_parts_that_are_met_but_not_together(self) -> None:
        """The words say by how many hosts each."""
        wants = Wants(requirements='ARCH = "x86" & CORES > 8')
        assert why(HOSTS, wants=wants) == (
            'no host satisfies all of SCHED_REQUIREMENTS ARCH = "x86" & CORES > 8:'
            ' 1 satisfy ARCH = "x86", 2 satisfy CORES > 8'
        )

    def test_an_error_is_a_reason_for_that_vm_alone(self) -> None:
        """It names the place."""
        vms = [Vm(0, wants=Wants(requirements="ARCH == 1")), Vm(1)]
        judged = judge(vms, HOSTS, Estate())
        assert names(judged, HOSTS, 1) == ["h0", "h1", "h2"]
        assert list(judged.constraints.unplaceable) == [0]
        assert (
            "SCHED_REQUIREMENTS can't be understood: at character 7"
            in (judged.constraints.unplaceable[0])
        )


class TestRank:
    def test_of_each_host(self) -> None:
        """Whole numbers, for a tie-break."""
        judged = judge([Vm(wants=Wants(rank="CORES * 2"))], HOSTS, Estate())
        assert judged.constraints.rank.tolist() == [[16, 32, 64]]

    def test_one_that_is_wrong_is_remarked_and_ignored(self) -> None:
        """As OpenNebula does, but its owner is told."""
        judged = judge([Vm(wants=Wants(rank="CORES-3"))], HOSTS, Estate())
        assert judged.constraints.vm_class.tolist() == [-1]
        assert "SCHED_RANK can't be understood" in judged.constraints.remarks[0]


def test_vms_that_ask_for_nothing_are_in_no_class() -> None:
    """So that a cloud without constraints costs nothing."""
    judged = judge([Vm(0), Vm(1)], HOSTS, Estate())
    assert judged.constraints.vm_class.tolist() == [-1, -1]
    assert judged.constraints.allowed.shape == (0, 3)
    assert judge([], HOSTS, Estate()).constraints.vm_class.tolist() == []
    assert judge([Vm()], [], Estate()).constraints.allowed.shape == (0, 0)


INDIVIDUAL, GROUP, EVERYBODY, IN_CLUSTER = 1 << 32, 2 << 32, 4 << 32, 8 << 32
HOST, NET, STORE = 0x2000000000, 0x4000000000, 0x100000000000
ANY_ZONE = EVERYBODY


def rule(user: int, resource: int, rights: int = 2, zone: int = ANY_ZONE) -> AclRule:
    """A rule, by its four numbers."""
    return AclRule(0, user, resource, rights, zone)


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
    def test_a_rule_lets_somebody_use_hosts(self, acl: AclRule, left: list[str]) -> None:
        """By user, group or everybody; host, cluster or all; in this zone or any."""
        assert where(HOSTS, users(acl), owner=2, group=100) == left

    @pytest.mark.parametrize(("owner", "group"), [(0, 100), (2, 0)])
    def test_nothing_is_asked_for_administrators(self, owner: int, group: int) -> None:
        """The user oneadmin, and VMs of the group oneadmin."""
        assert where(HOSTS, users(), owner=owner, group=group) == ["h0", "h1", "h2"]

    def test_nothing_is_asked_where_nobody_is_known(self) -> None:
        """An account that may not read users can't judge them."""
        assert where(HOSTS, Estate(), owner=2, group=100) == ["h0", "h1", "h2"]

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
        estate = Estate(datastores=[datastore(5, "a"), datastore(6, "b", clusters=frozenset({1}))])
        judged = judge([Vm()], HOSTS, estate)
        assert [judged.datastore_of(0, row) for row in range(3)] == [5, 5, 6]
        assert where(HOSTS, Estate(datastores=[datastore(5, "a")])) == ["h0", "h1"]

    def test_a_cloud_of_which_no_datastore_is_known(self) -> None:
        """Oned chooses."""
        judged = judge([Vm()], HOSTS, Estate())
        assert judged.datastore_of(0, 0) == LET_ONED_CHOOSE

    def test_where_none_is_in_reach(self) -> None:
        """The words name them."""
        estate = Estate(datastores=[datastore(5, "far", clusters=frozenset({9}))])
        assert why(HOSTS, estate) == (
            "system datastore far is not in the cluster of any of the 3 hosts it could be on"
        )

    @pytest.mark.parametrize(
        ("others", "reason"),
        [
            ({"free_mib": 10240}, "system datastore s: 10.0 GiB free, 40.0 GiB needed"),
            ({"free_mib": 40960}, "system datastore s: 40.0 GiB free, 40.0 GiB needed"),
            ({"free_mib": 0, "total_mib": 0}, "system datastore s is not monitored"),
            ({"usable": False}, "there is no system datastore that is ready"),
            ({"kind": 0}, "there is no system datastore that is ready"),
            ({"shared": False}, "system datastore s: at most 20.0 GiB free on a host, 40.0 GiB"),
        ],
    )
    def test_state_kind_and_room(self, others: dict[str, object], reason: str) -> None:
        """Something must be left over, as oned asks it."""
        hosts = [host(0, disk_mib=20480.0), host(1, datastore_mib={0: 10240.0})]
        estate = Estate(datastores=[datastore(0, "s", **others)])  # type: ignore[arg-type]
        assert why(hosts, estate, wants=Wants(system_mib=40960)).startswith(reason)

    def test_local_space_is_the_hosts(self) -> None:
        """What it says of that datastore, or of its disks."""
        hosts = [host(0, disk_mib=100.0), host(1, disk_mib=9.0, datastore_mib={0: 50.0}), host(2)]
        estate = Estate(datastores=[datastore(0, "ssh", shared=False)])
        assert where(hosts, estate, wants=Wants(system_mib=20)) == ["h0", "h1"]
        assert where(hosts, estate, wants=Wants()) == ["h0", "h1", "h2"]

    def test_requirements_and_rank_choose(self) -> None:
        """Of those that are left the highest rank, then the most space."""
        stores = [
            datastore(0, "slow", 900),
            datastore(1, "fast", 500, values={"SPEED": ["9"]}),
            datastore(2, "big", 990),
        ]
        estate = Estate(datastores=stores)

        def chosen(**wants: str) -> int:
            return judge([Vm(wants=Wants(**wants))], HOSTS[:1], estate).datastore_of(0, 0)  # type: ignore[arg-type]

        assert chosen() == 2
        assert chosen(rank_ds="SPEED") == 1
        assert chosen(requirements_ds='NAME = "slow"') == 0
        assert chosen(automatic_ds='"CLUSTERS/ID" @> 0') == 2
        wants = Wants(requirements_ds="SPEED > 20")
        assert why(HOSTS, estate, wants=wants) == (
            "no system datastore satisfies SCHED_DS_REQUIREMENTS SPEED > 20: 2 system datastores"
            " have no attribute SPEED; there is SPEED '9'"
        )

    def test_a_vm_that_moves_keeps_its_own(self) -> None:
        """Its disks are there already: no room is needed, but the host must reach it."""
        stores = [datastore(0, "full", 1.0), datastore(1, "other")]
        estate = Estate(datastores=stores)
        vm = {"wants": Wants(system_mib=40960), "stay": Stay(0, running=True)}
        assert where(HOSTS, estate, **vm) == ["h0", "h1"]
        judged = judge([Vm(**vm)], HOSTS, estate)  # type: ignore[arg-type]
        assert judged.datastore_of(0, 0) == 0

    def test_images_need_room_too(self) -> None:
        """Where they are cloned in place."""
        estate = Estate(datastores=[datastore(0, "s"), datastore(1, "images", 2048, kind=0)])
        assert where(HOSTS[:1], estate, wants=Wants(image_mib=((1, 1024),))) == ["h0"]
        assert why(HOSTS, estate, wants=Wants(image_mib=((1, 4096),))) == (
            "image datastore images: 2.0 GiB free, 4.0 GiB needed"
        )
        assert "image datastore 8 is not there" in (
            why(HOSTS, estate, wants=Wants(image_mib=((8, 1),)))
        )


class TestNetworks:
    NETS = (
        network(0, "red", 3),
        network(1, "blue", 5, values={"VLAN": ["7"]}),
        network(2, "far", 9, clusters=frozenset({1})),
        network(3, "used", 0, clusters=frozenset({0, 1})),
    )

    def chosen(self, *nics: NicWant) -> list[tuple[tuple[int, int], ...]]:
        """On each host, which network each NIC gets."""
        wants = Wants(nics=nics)
        judged = judge([Vm(wants=wants)], HOSTS, Estate(networks=self.NETS))
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
        wants = Wants(nics=tuple(NicWant(nic) for nic in range(3)))
        assert "each of 3 automatic NICs needs a network of its own" in (
            why(HOSTS, Estate(networks=self.NETS), wants=wants)
        )

    def test_no_lease(self) -> None:
        """The network is named."""
        estate = Estate(networks=self.NETS[3:])
        assert why(HOSTS, estate, wants=Wants(nics=(NicWant(0),))) == (
            "NIC 0: network used has no free lease"
        )

    def test_rights(self) -> None:
        """USE on the network."""
        estate = users(
            rule(EVERYBODY, HOST | EVERYBODY), networks=[network(0, "red", permissions=0o640)]
        )
        vm = {"owner": 2, "group": 100, "wants": Wants(nics=(NicWant(0),))}
        assert why(HOSTS, estate, **vm) == ("NIC 0: user alice may not use network red (needs USE)")


class TestDevices:
    GPU = Device("10de", "1db4", "0302", "01:00")
    NIC = Device("8086", "10fb", "0200", "02:00")
    HOSTS = (
        host(0, pcis=[GPU, NIC]),
        host(1, pcis=[Device("10de", "1db4", "0302", "01:00", vm=5), NIC]),
        host(2, pcis=[GPU, Device("10de", "20b0", "0302", "03:00")]),
    )

    @pytest.mark.parametrize(
        ("wants", "left"),
        [
            ([PciWant(vendor="10DE")], ["h0", "h2"]),
            ([PciWant(vendor="10de"), PciWant(vendor="10de")], ["h2"]),
            ([PciWant(device="1db4"), PciWant(kind="0200")], ["h0"]),
            ([PciWant(vendor="10de", device="20b0")], ["h2"]),
            ([PciWant(address="02:00")], ["h0", "h1"]),
            ([PciWant(address="01:00"), PciWant(kind="0302")], ["h2"]),
            ([PciWant()], []),
        ],
    )
    def test_free_ones_that_match(self, wants: list[PciWant], left: list[str]) -> None:
        """By vendor, device, class or address; each for one VM."""
        assert where(self.HOSTS, wants=Wants(pcis=tuple(wants))) == left

    def test_where_there_is_none(self) -> None:
        """The words say which."""
        assert why(self.HOSTS, wants=Wants(pcis=(PciWant(vendor="dead"),))) == (
            "none of 3 hosts has a free PCI device for vendor dead"
        )

    def test_a_profile(self) -> None:
        """Of a virtual GPU."""
        hosts = [host(0, pcis=[Device("10de", "1", "3", "1", profiles=("nvidia-63",))])]
        assert where(hosts, wants=Wants(pcis=(PciWant("10de", profile="nvidia-63"),))) == ["h0"]
        assert where(hosts, wants=Wants(pcis=(PciWant("10de", profile="other"),))) == []

    def test_its_vm_is_not_moved(self) -> None:
        """Nor one that is pinned by OpenNebula."""
        pci, numa = Wants(pcis=(PciWant("10de"),)), Wants(numa=NumaWant("CORE", ((1, 1),)))
        judged = judge([Vm(wants=pci), Vm(wants=numa), Vm()], self.HOSTS, Estate())
        assert judged.constraints.fixed.tolist() == [True, True, False]


def node(number: int, free: list[int], free_mib: int = 8192, **pages: int) -> Node:
    """A node whose cores have two threads."""
    cores = [(2, threads, False) for threads in free]
    return Node(number, cores, free_mib, {int(size[1:]): count for size, count in pages.items()})


class TestNuma:
    HOSTS = (
        host(0, numa=[node(0, [2, 2]), node(1, [2, 2])]),
        host(1, numa=[node(0, [1, 1, 1, 1]), node(1, [0], _2=1024)]),
        host(2, numa=[node(0, [2, 2, 2, 2], free_mib=100)]),
        host(3),
    )

    @pytest.mark.parametrize(
        ("want", "left"),
        [
            (NumaWant("CORE", ((2, 1024),)), ["h0"]),
            (NumaWant("CORE", ((2, 1024), (2, 1024))), ["h0"]),
            (NumaWant("CORE", ((3, 1024),)), []),
            (NumaWant("CORE", ((4, 50),)), ["h2"]),
            (NumaWant("THREAD", ((4, 1024),)), ["h0", "h1"]),
            (NumaWant("THREAD", ((4, 1024),), threads=2), ["h0"]),
            (NumaWant("THREAD", ((3, 1024),), threads=2), []),
            (NumaWant("THREAD", ((4, 4096), (4, 4096))), ["h0"]),
            (NumaWant("THREAD", ((4, 1024), (4, 1024), (4, 1024))), []),
            (NumaWant("NODE_AFFINITY", ((2, 1024),), node_affinity=1), ["h0", "h1"]),
            (NumaWant("NONE", ((2, 1024),), hugepage_mib=2), ["h1"]),
            (NumaWant("NONE", ((2, 4096),), hugepage_mib=2), []),
        ],
    )
    def test_cores_threads_memory_and_pages(self, want: NumaWant, left: list[str]) -> None:
        """Free together on a node of the host."""
        assert where(self.HOSTS, wants=Wants(numa=want)) == left

    def test_where_there_is_no_room(self) -> None:
        """The words say what kind."""
        assert "PIN_POLICY CORE" in why(self.HOSTS, wants=Wants(numa=NumaWant("CORE", ((9, 1),))))


class TestGroups:
    RULES = (
        GroupRule(
            3,
            "shop",
            [
                Role(0, "web", "ANTI_AFFINED"),
                Role(1, "db", "AFFINED", host_affined=frozenset({0, 1})),
                Role(2, "log", host_anti_affined=frozenset({0, 1, 2})),
            ],
            affined=[("web", "db")],
            anti_affined=[("db", "log", "gone")],
        ),
        GroupRule(4, "shop", [Role(0, "web")]),
    )

    def test_roles_and_pairs(self) -> None:
        """As the strategies have them."""
        vms = [Vm(0, member=Member(3, "db")), Vm(1, member=Member(4, "web")), Vm(2)]
        got = judge(vms, HOSTS, Estate(groups=self.RULES)).constraints
        assert got.vm_role.tolist() == [1, 3, -1]
        assert got.role_name == ("shop (3)/web", "shop/db", "shop/log", "shop (4)/web")
        expected = [RolePolicy.APART, RolePolicy.TOGETHER, RolePolicy.NONE, RolePolicy.NONE]
        assert got.role_policy.tolist() == expected
        assert got.role_pairs == ((0, 1, RolePolicy.TOGETHER), (1, 2, RolePolicy.APART))

    def test_hosts_of_a_role(self) -> None:
        """Only these, or never those."""
        estate = Estate(groups=self.RULES)
        assert where(HOSTS, estate, member=Member(3, "db")) == ["h0", "h1"]
        assert "HOST_AFFINED" in why(HOSTS, estate, member=Member(3, "log"))


def test_equal_vms_are_one_class_whatever_their_number() -> None:
    """Also where each has an object of its own that says the same."""
    vms = [Vm(row, wants=Wants(requirements=f"CORES > {row % 3 * 10}")) for row in range(300)]
    judged = judge(vms, HOSTS, Estate())
    assert len(judged.datastore) == 3
    assert len(judged.constraints.class_name) == len(set(judged.constraints.class_name)) == 2
    expected = np.array([-1, 0, 1] * 100)
    assert judged.constraints.vm_class.tolist() == expected.tolist()
