"""Every constraint by itself: which hosts are left, and what is said when none is."""

from dataclasses import replace

import numpy as np

from merkatd.cluster import RolePolicy
from merkatd.opennebula.constraints import judge_feasibility
from merkatd.opennebula.pools.constraint_facts import (
    GroupRule,
    Role,
    RoleMember,
    SiteFacts,
    VmRequirements,
)
from tests.opennebula.constraints.clouds import Vm, host, names, where, why

HOSTS = [
    host(0, says={"ARCH": "x86", "CORES": 8}),
    host(1, says={"ARCH": "arm", "CORES": 16}, vms=frozenset({7})),
    host(2, cluster=1, says={"CORES": 32}),
]


class TestRequirements:
    def test_both_kinds_count(self) -> None:
        """What oned adds by itself, and what the user says."""
        wants = VmRequirements(automatic="CORES > 8", requirements='NAME = "h*" & !(ARCH = "arm")')
        assert where(HOSTS, wants=wants) == ["h2"]

    def test_a_bracket_closed_too_early_frees_nobody(self) -> None:
        """Joined as texts, the user's part could do away with oned's."""
        wants = VmRequirements(automatic="CORES > 100", requirements="CORES = 1) | (CORES > 0")
        assert where(HOSTS, wants=wants) == []

    def test_vms_beside_others(self) -> None:
        """CURRENT_VMS is what the host has."""
        assert where(HOSTS, wants=VmRequirements(requirements="CURRENT_VMS = 7")) == ["h1"]
        assert where(HOSTS, wants=VmRequirements(requirements="CURRENT_VMS != 7")) == ["h0", "h2"]

    def test_what_nobody_satisfies_is_named_with_what_there_is(self) -> None:
        """The part of a conjunction, who lacks the attribute, what the others say."""
        wants = VmRequirements(automatic="CORES > 0", requirements='CORES > 1 & ARCH = "gpu"')
        assert why(HOSTS, wants=wants) == (
            'no host satisfies SCHED_REQUIREMENTS ARCH = "gpu": 1 host has no attribute ARCH;'
            " existing values: 'arm', 'x86'"
        )

    def test_parts_that_are_met_but_not_together(self) -> None:
        """The words say by how many hosts each."""
        wants = VmRequirements(requirements='ARCH = "x86" & CORES > 8')
        assert why(HOSTS, wants=wants) == (
            'no host satisfies all of SCHED_REQUIREMENTS ARCH = "x86" & CORES > 8:'
            ' 1 satisfy ARCH = "x86", 2 satisfy CORES > 8'
        )

    def test_an_error_is_a_reason_for_that_vm_alone(self) -> None:
        """It names the place."""
        vms = [Vm(0, wants=VmRequirements(requirements="ARCH == 1")), Vm(1)]
        judged = judge_feasibility(vms, HOSTS, SiteFacts())
        assert names(judged, HOSTS, 1) == ["h0", "h1", "h2"]
        assert list(judged.constraints.unplaceable) == [0]
        assert (
            "SCHED_REQUIREMENTS can't be understood: at character 7"
            in (judged.constraints.unplaceable[0])
        )


class TestRank:
    def test_of_each_host(self) -> None:
        """Whole numbers, for a tie-break."""
        judged = judge_feasibility([Vm(wants=VmRequirements(rank="CORES * 2"))], HOSTS, SiteFacts())
        assert judged.constraints.rank.tolist() == [[16, 32, 64]]

    def test_one_that_is_wrong_is_remarked_and_ignored(self) -> None:
        """As OpenNebula does, but its owner is told."""
        judged = judge_feasibility([Vm(wants=VmRequirements(rank="CORES-3"))], HOSTS, SiteFacts())
        assert judged.constraints.vm_class.tolist() == [-1]
        assert "SCHED_RANK can't be understood" in judged.constraints.remarks[0]


def test_vms_that_ask_for_nothing_are_in_no_class() -> None:
    """So that a cloud without constraints costs nothing."""
    judged = judge_feasibility([Vm(0), Vm(1)], HOSTS, SiteFacts())
    assert judged.constraints.vm_class.tolist() == [-1, -1]
    assert judged.constraints.allowed.shape == (0, 3)
    assert judge_feasibility([], HOSTS, SiteFacts()).constraints.vm_class.tolist() == []
    assert judge_feasibility([Vm()], [], SiteFacts()).constraints.allowed.shape == (0, 0)


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
        vms = [Vm(0, member=RoleMember(3, "db")), Vm(1, member=RoleMember(4, "web")), Vm(2)]
        got = judge_feasibility(vms, HOSTS, SiteFacts(groups=self.RULES)).constraints
        assert got.vm_role.tolist() == [1, 3, -1]
        assert got.role_name == ("shop (3)/web", "shop/db", "shop/log", "shop (4)/web")
        expected = [RolePolicy.APART, RolePolicy.TOGETHER, RolePolicy.NONE, RolePolicy.NONE]
        assert got.role_policy.tolist() == expected
        assert got.role_pairs == ((0, 1, RolePolicy.TOGETHER), (1, 2, RolePolicy.APART))

    def test_a_pair_of_roles_is_told_once(self) -> None:
        """However many lines of a group name two roles, strategies read one pair of them."""
        rule = replace(self.RULES[0], affined=[("web", "db"), ("db", "web", "db")] * 1000)
        got = judge_feasibility(
            [Vm(0, member=RoleMember(3, "db"))], HOSTS, SiteFacts(groups=[rule])
        ).constraints
        assert got.role_pairs == ((0, 1, RolePolicy.TOGETHER), (1, 2, RolePolicy.APART))

    def test_groups_that_no_vm_uses_ask_nothing(self) -> None:
        """Only groups that VMs are in cost periods anything."""
        many = [replace(self.RULES[0], id=number) for number in range(10, 1000)]
        vms = [Vm(0, member=RoleMember(4, "web"))]
        got = judge_feasibility(vms, HOSTS, SiteFacts(groups=[*many, self.RULES[1]])).constraints
        assert got.role_name == ("shop/web",)
        assert got.role_pairs == ()

    def test_hosts_of_a_role(self) -> None:
        """Only these, or never those."""
        estate = SiteFacts(groups=self.RULES)
        assert where(HOSTS, estate, member=RoleMember(3, "db")) == ["h0", "h1"]
        assert "HOST_AFFINED" in why(HOSTS, estate, member=RoleMember(3, "log"))


def test_equal_vms_are_one_class_whatever_their_number() -> None:
    """Also where each has an object of its own that says the same."""
    vms = [
        Vm(row, wants=VmRequirements(requirements=f"CORES > {row % 3 * 10}")) for row in range(300)
    ]
    judged = judge_feasibility(vms, HOSTS, SiteFacts())
    assert len(judged.datastore) == 3
    assert len(judged.constraints.class_name) == len(set(judged.constraints.class_name)) == 2
    expected = np.array([-1, 0, 1] * 100)
    assert judged.constraints.vm_class.tolist() == expected.tolist()
