"""Each constraint alone: the remaining hosts, and the reason if none remains."""

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
from tests.opennebula.constraints.clouds import Vm, allowed_hosts, host, names, reason

HOSTS = [
    host(0, says={"ARCH": "x86", "CORES": 8}),
    host(1, says={"ARCH": "arm", "CORES": 16}, vms=frozenset({7})),
    host(2, cluster=1, says={"CORES": 32}),
]


class TestRequirements:
    def test_both_kinds_of_requirements_count(self) -> None:
        """These are oned's own and the user's."""
        wants = VmRequirements(automatic="CORES > 8", requirements='NAME = "h*" & !(ARCH = "arm")')
        assert allowed_hosts(HOSTS, wants=wants) == ["h2"]

    def test_an_early_closing_bracket_has_no_effect(self) -> None:
        """Joined as texts, the user's part could disable oned's."""
        wants = VmRequirements(automatic="CORES > 100", requirements="CORES = 1) | (CORES > 0")
        assert allowed_hosts(HOSTS, wants=wants) == []

    def test_vms_on_the_host_can_be_required(self) -> None:
        """CURRENT_VMS is the list of the host's VMs."""
        assert allowed_hosts(HOSTS, wants=VmRequirements(requirements="CURRENT_VMS = 7")) == ["h1"]
        assert allowed_hosts(HOSTS, wants=VmRequirements(requirements="CURRENT_VMS != 7")) == [
            "h0",
            "h2",
        ]

    def test_an_unsatisfied_requirement_is_named_with_existing_values(self) -> None:
        """The reason has the failing part, hosts without the attribute, and existing values."""
        wants = VmRequirements(automatic="CORES > 0", requirements='CORES > 1 & ARCH = "gpu"')
        assert reason(HOSTS, wants=wants) == (
            'no host satisfies SCHED_REQUIREMENTS ARCH = "gpu": 1 host has no attribute ARCH;'
            " existing values: 'arm', 'x86'"
        )

    def test_parts_that_are_only_met_separately_are_named(self) -> None:
        """The reason has the number of hosts for each part."""
        wants = VmRequirements(requirements='ARCH = "x86" & CORES > 8')
        assert reason(HOSTS, wants=wants) == (
            'no host satisfies all of SCHED_REQUIREMENTS ARCH = "x86" & CORES > 8:'
            ' 1 satisfy ARCH = "x86", 2 satisfy CORES > 8'
        )

    def test_an_error_affects_only_its_vm(self) -> None:
        """The reason has the place of the error."""
        vms = [Vm(0, wants=VmRequirements(requirements="ARCH == 1")), Vm(1)]
        judged = judge_feasibility(vms, HOSTS, SiteFacts())
        assert names(judged, HOSTS, 1) == ["h0", "h1", "h2"]
        assert list(judged.constraints.unplaceable) == [0]
        assert (
            "SCHED_REQUIREMENTS can't be understood: at character 7"
            in (judged.constraints.unplaceable[0])
        )


class TestRank:
    def test_ranks_are_computed_for_each_host(self) -> None:
        """They are whole numbers, for tie-breaks."""
        judged = judge_feasibility([Vm(wants=VmRequirements(rank="CORES * 2"))], HOSTS, SiteFacts())
        assert judged.constraints.rank.tolist() == [[16, 32, 64]]

    def test_an_invalid_rank_is_ignored_with_a_remark(self) -> None:
        """OpenNebula ignores it too, and Merkat tells the owner."""
        judged = judge_feasibility([Vm(wants=VmRequirements(rank="CORES-3"))], HOSTS, SiteFacts())
        assert judged.constraints.vm_class.tolist() == [-1]
        assert "SCHED_RANK can't be understood" in judged.constraints.remarks[0]


def test_vms_without_constraints_have_no_class() -> None:
    """A cloud without constraints costs nothing."""
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

    def test_roles_and_pairs_are_read(self) -> None:
        """They are in the form of the strategies."""
        vms = [Vm(0, member=RoleMember(3, "db")), Vm(1, member=RoleMember(4, "web")), Vm(2)]
        got = judge_feasibility(vms, HOSTS, SiteFacts(groups=self.RULES)).constraints
        assert got.vm_role.tolist() == [1, 3, -1]
        assert got.role_name == ("shop (3)/web", "shop/db", "shop/log", "shop (4)/web")
        expected = [RolePolicy.APART, RolePolicy.TOGETHER, RolePolicy.NONE, RolePolicy.NONE]
        assert got.role_policy.tolist() == expected
        assert got.role_pairs == ((0, 1, RolePolicy.TOGETHER), (1, 2, RolePolicy.APART))

    def test_a_pair_of_roles_is_listed_once(self) -> None:
        """Many lines of a group with the same roles are one pair."""
        rule = replace(self.RULES[0], affined=[("web", "db"), ("db", "web", "db")] * 1000)
        got = judge_feasibility(
            [Vm(0, member=RoleMember(3, "db"))], HOSTS, SiteFacts(groups=[rule])
        ).constraints
        assert got.role_pairs == ((0, 1, RolePolicy.TOGETHER), (1, 2, RolePolicy.APART))

    def test_unused_groups_are_ignored(self) -> None:
        """Only groups with VMs cost time."""
        many = [replace(self.RULES[0], id=number) for number in range(10, 1000)]
        vms = [Vm(0, member=RoleMember(4, "web"))]
        got = judge_feasibility(vms, HOSTS, SiteFacts(groups=[*many, self.RULES[1]])).constraints
        assert got.role_name == ("shop/web",)
        assert got.role_pairs == ()

    def test_a_role_may_name_its_hosts(self) -> None:
        """HOST_AFFINED allows only these hosts, and HOST_ANTI_AFFINED excludes them."""
        estate = SiteFacts(groups=self.RULES)
        assert allowed_hosts(HOSTS, estate, member=RoleMember(3, "db")) == ["h0", "h1"]
        assert "HOST_AFFINED" in reason(HOSTS, estate, member=RoleMember(3, "log"))


def test_equal_vms_are_one_class() -> None:
    """This holds also for separate objects with equal content."""
    vms = [
        Vm(row, wants=VmRequirements(requirements=f"CORES > {row % 3 * 10}")) for row in range(300)
    ]
    judged = judge_feasibility(vms, HOSTS, SiteFacts())
    assert len(judged.datastore) == 3
    assert len(judged.constraints.class_name) == len(set(judged.constraints.class_name)) == 2
    expected = np.array([-1, 0, 1] * 100)
    assert judged.constraints.vm_class.tolist() == expected.tolist()
