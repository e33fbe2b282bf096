"""Resources that a VM's owner may use and that have room: hosts, datastores, networks."""

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
    allowed_hosts,
    datastore,
    host,
    names,
    network,
    reason,
    users,
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
    """Return a rule from its four numbers."""
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
    def test_a_rule_allows_hosts(self, acl: AccessRule, left: list[str]) -> None:
        """It names a user, a group or all; a host, a cluster or all; this zone or any."""
        assert allowed_hosts(HOSTS, users(acl), owner=2, group=100) == left

    @pytest.mark.parametrize(("owner", "group"), [(0, 100), (2, 0)])
    def test_administrators_need_no_rules(self, owner: int, group: int) -> None:
        """They are the user oneadmin and VMs of the group oneadmin."""
        assert allowed_hosts(HOSTS, users(), owner=owner, group=group) == ["h0", "h1", "h2"]

    def test_without_known_users_rights_are_not_checked(self) -> None:
        """An account that may not read users cannot judge them."""
        assert allowed_hosts(HOSTS, SiteFacts(), owner=2, group=100) == ["h0", "h1", "h2"]

    def test_a_removed_user_has_no_rights(self) -> None:
        """Other users of the group keep theirs."""
        assert (
            allowed_hosts(HOSTS, users(rule(EVERYBODY, HOST | EVERYBODY)), owner=99, group=1) == []
        )

    def test_a_missing_right_is_named(self) -> None:
        """The reason has the user, the object and the right."""
        assert reason(HOSTS[:1], users(), owner=2, group=100) == (
            "user alice may not use host h0 (needs MANAGE)"
        )
        assert reason(HOSTS, users(), owner=3, group=1) == (
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
    def test_permissions_of_a_datastore_count(
        self, bits: int, owner: int, group: int, may: bool
    ) -> None:
        """USE may belong to its owner, its group or others."""
        store = datastore(0, "ssd", owner=owner, group=group, permissions=bits)
        estate = users(rule(EVERYBODY, HOST | EVERYBODY), datastores=[store])
        assert allowed_hosts(HOSTS[:2], estate, owner=2, group=100) == (["h0", "h1"] if may else [])
        if not may:
            assert reason(HOSTS[:2], estate, owner=2, group=100) == (
                "user alice may not use system datastore ssd (needs USE)"
            )


class TestDatastores:
    def test_the_datastore_must_be_in_the_hosts_cluster(self) -> None:
        """The chosen datastore is known for each host."""
        estate = SiteFacts(
            datastores=[datastore(5, "a"), datastore(6, "b", clusters=frozenset({1}))]
        )
        judged = judge_feasibility([Vm()], HOSTS, estate)
        assert [judged.datastore_of(0, row) for row in range(3)] == [5, 5, 6]
        assert allowed_hosts(HOSTS, SiteFacts(datastores=[datastore(5, "a")])) == ["h0", "h1"]

    def test_without_known_datastores_oned_chooses(self) -> None:
        """The plan names no datastore."""
        judged = judge_feasibility([Vm()], HOSTS, SiteFacts())
        assert judged.datastore_of(0, 0) == LET_ONED_CHOOSE

    def test_unreachable_datastores_are_named(self) -> None:
        """The reason says that no cluster contains them."""
        estate = SiteFacts(datastores=[datastore(5, "far", clusters=frozenset({9}))])
        assert reason(HOSTS, estate) == (
            "system datastore far is not in the cluster of any of the 3 hosts it could be on"
        )

    @pytest.mark.parametrize(
        ("others", "expected"),
        [
            ({"free_mib": 10240}, "system datastore s: 10.0 GiB free, 40.0 GiB needed"),
            ({"free_mib": 40960}, "system datastore s: 40.0 GiB free, 40.0 GiB needed"),
            ({"free_mib": 0, "total_mib": 0}, "system datastore s is not monitored"),
            ({"usable": False}, "no system datastore is ready"),
            ({"kind": 0}, "no system datastore is ready"),
            ({"shared": False}, "system datastore s: at most 20.0 GiB free on a host, 40.0 GiB"),
        ],
    )
    def test_state_kind_and_room_count(self, others: dict[str, object], expected: str) -> None:
        """Some space must remain, as in oned."""
        hosts = [host(0, disk_mib=20480.0), host(1, datastore_mib={0: 10240.0})]
        estate = SiteFacts(datastores=[datastore(0, "s", **others)])  # type: ignore[arg-type]
        assert reason(hosts, estate, wants=VmRequirements(system_mib=40960)).startswith(expected)

    def test_local_space_is_the_hosts(self) -> None:
        """It is the host's report for that datastore, or for its disks."""
        hosts = [host(0, disk_mib=100.0), host(1, disk_mib=9.0, datastore_mib={0: 50.0}), host(2)]
        estate = SiteFacts(datastores=[datastore(0, "ssh", shared=False)])
        assert allowed_hosts(hosts, estate, wants=VmRequirements(system_mib=20)) == ["h0", "h1"]
        assert allowed_hosts(hosts, estate, wants=VmRequirements()) == ["h0", "h1", "h2"]

    def test_requirements_and_rank_choose_a_datastore(self) -> None:
        """The highest rank wins, and then the most space."""
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
        assert reason(HOSTS, estate, wants=wants) == (
            "no system datastore satisfies SCHED_DS_REQUIREMENTS SPEED > 20: 2 system datastores"
            " have no attribute SPEED; existing values: '9'"
        )

    def test_a_migrating_vm_keeps_its_datastore(self) -> None:
        """Its disks are there, so no room is needed, but the host must reach it."""
        stores = [datastore(0, "full", 1.0), datastore(1, "other")]
        estate = SiteFacts(datastores=stores)
        vm = {"wants": VmRequirements(system_mib=40960), "stay": DiskLocation(0, running=True)}
        assert allowed_hosts(HOSTS, estate, **vm) == ["h0", "h1"]
        judged = judge_feasibility([Vm(**vm)], HOSTS, estate)  # type: ignore[arg-type]
        assert judged.datastore_of(0, 0) == 0

    def test_images_need_room_too(self) -> None:
        """It is needed in the datastore where they are cloned."""
        estate = SiteFacts(datastores=[datastore(0, "s"), datastore(1, "images", 2048, kind=0)])
        assert allowed_hosts(HOSTS[:1], estate, wants=VmRequirements(image_mib=((1, 1024),))) == [
            "h0"
        ]
        assert reason(HOSTS, estate, wants=VmRequirements(image_mib=((1, 4096),))) == (
            "image datastore images: 2.0 GiB free, 4.0 GiB needed"
        )
        assert "image datastore 8 does not exist" in (
            reason(HOSTS, estate, wants=VmRequirements(image_mib=((8, 1),)))
        )

    @pytest.mark.parametrize("running", [True, False])
    def test_images_of_a_deployed_vm_need_no_more_room(self, running: bool) -> None:
        """Such a VM may move although the image datastore is full or removed."""
        estate = SiteFacts(datastores=[datastore(0, "s"), datastore(1, "images", 10, kind=0)])
        for image in (1, 8):
            wants = VmRequirements(image_mib=((image, 4096),))
            assert allowed_hosts(
                HOSTS[:1], estate, wants=wants, stay=DiskLocation(0, running=running)
            ) == ["h0"]
            assert allowed_hosts(HOSTS[:1], estate, wants=wants) == []


class TestNetworks:
    NETS = (
        network(0, "red", 3),
        network(1, "blue", 5, values={"VLAN": ["7"]}),
        network(2, "far", 9, clusters=frozenset({1})),
        network(3, "used", 0, clusters=frozenset({0, 1})),
    )

    def chosen(self, *nics: NicWant) -> list[tuple[tuple[int, int], ...]]:
        """Return the network of each NIC, for each allowed host."""
        wants = VmRequirements(nics=nics)
        judged = judge_feasibility([Vm(wants=wants)], HOSTS, SiteFacts(networks=self.NETS))
        left = names(judged, HOSTS, 0)
        return [judged.networks_of(0, row) for row, host in enumerate(HOSTS) if host.name in left]

    def test_the_network_with_most_leases_is_chosen(self) -> None:
        """It must be in the host's cluster; OpenNebula spreads by default."""
        assert self.chosen(NicWant(4)) == [((4, 1),), ((4, 1),), ((4, 2),)]

    def test_rank_and_requirements_choose_networks(self) -> None:
        """Each NIC has its own."""
        assert self.chosen(NicWant(0, rank="- ID")) == [((0, 0),), ((0, 0),), ((0, 2),)]
        assert self.chosen(NicWant(0, requirements="VLAN = 7")) == [((0, 1),)] * 2

    def test_each_nic_gets_a_network_of_its_own(self) -> None:
        """Only the first two hosts' cluster has two networks with leases."""
        assert self.chosen(NicWant(0), NicWant(1)) == [((0, 1), (1, 0))] * 2
        wants = VmRequirements(nics=tuple(NicWant(nic) for nic in range(3)))
        assert "each of 3 automatic NICs needs a network of its own" in (
            reason(HOSTS, SiteFacts(networks=self.NETS), wants=wants)
        )

    def test_more_nics_than_networks_are_rejected(self) -> None:
        """Such a VM is rejected at once, and the message has the number of networks."""
        wants = VmRequirements(nics=tuple(NicWant(nic) for nic in range(4)))
        assert reason(HOSTS, SiteFacts(networks=self.NETS), wants=wants) == (
            "each of 4 automatic NICs needs a network of its own; no cluster has more than 3"
            " networks"
        )

    def test_equal_nics_are_judged_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Equal VMs and NICs cause one evaluation of the networks."""
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

    def test_a_network_without_leases_is_named(self) -> None:
        """The reason has the network's name."""
        estate = SiteFacts(networks=self.NETS[3:])
        assert reason(HOSTS, estate, wants=VmRequirements(nics=(NicWant(0),))) == (
            "NIC 0: network used has no free lease"
        )

    def test_rights_on_networks_count(self) -> None:
        """USE on the network is needed."""
        estate = users(
            rule(EVERYBODY, HOST | EVERYBODY), networks=[network(0, "red", permissions=0o640)]
        )
        vm = {"owner": 2, "group": 100, "wants": VmRequirements(nics=(NicWant(0),))}
        assert reason(HOSTS, estate, **vm) == (
            "NIC 0: user alice may not use network red (needs USE)"
        )
