"""Every strategy respects the hard constraints, and every plan can be executed."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from merkatd.cluster import (
    Decision,
    Deploy,
    HostState,
    Markets,
    Migrate,
    Requirements,
    RolePolicy,
    Roles,
    Snapshot,
    VmState,
)
from merkatd.cluster.snapshot import view_of_market
from merkatd.cluster.vms import RolePairs
from merkatd.placement import STRATEGIES, strategy_named
from merkatd.placement.made_up_needs import with_needs
from merkatd.placement.markets_in_turn import (
    DecisionBasis,
    MarketBasis,
    decide_again,
)
from tests.clouds import cloud, hosts_table, placed, tangled, vms_table
from tests.lengths import shorten
from tests.placement.conformance.place_rules import (
    broken_rule,
    floors_while_all_others_stay,
    misplaced,
)


@cache
def decided(strategy: str, seed: int) -> tuple[Snapshot, Decision]:
    """Return a market of a cloud with all constraints and its decision; several tests see it."""
    snapshot = view_of_market(tangled(seed), seed % 2)
    snapshot = with_needs(snapshot, strategy_named(strategy).needs)
    return snapshot, strategy_named(strategy).decide(snapshot)


def decide(strategy: str, snapshot: Snapshot) -> Decision:
    """Return the decision for all markets in turn, of the cloud with all that is needed."""
    entry = strategy_named(strategy)
    markets = (MarketBasis(name, strategy, entry.defaults) for name in snapshot.markets.name)
    return decide_again(with_needs(snapshot, entry.needs), DecisionBasis(0, tuple(markets)))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(shorten(60, 20)))
def test_every_step_obeys_the_hard_constraints(strategy: str, seed: int) -> None:
    """Only pending VMs are deployed, and only running, movable VMs are migrated."""
    snapshot, decision = decided(strategy, seed)
    host = placed(snapshot, decision)
    for step in decision.plan:
        assert step.reason
        if not isinstance(step, Deploy | Migrate):
            assert misplaced(snapshot, step) == ""
            continue
        row = snapshot.vm_row(step.vm)
        assert broken_rule(snapshot, host, row) == ""
        if isinstance(step, Migrate):
            assert snapshot.vms.host[row] == snapshot.host_row(step.source) != host[row]
            assert snapshot.vms.movable[row]
        else:
            assert snapshot.vms.host[row] == -1


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(shorten(40, 20)))
def test_every_pending_vm_is_deployed_or_gets_a_reason(strategy: str, seed: int) -> None:
    """Each pending VM of a market has either a deploy step or a reason."""
    snapshot, decision = decided(strategy, seed)
    pending = {
        int(snapshot.vms.id[row])
        for row in np.flatnonzero((snapshot.vms.host < 0) & (snapshot.vms.market >= 0))
    }
    deployed = {step.vm for step in decision.plan.of(Deploy)}
    assert pending - deployed <= set(decision.reasons)
    assert not deployed & set(decision.reasons)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(shorten(60, 20)))
def test_floors_fit_on_every_host_during_a_plan(strategy: str, seed: int) -> None:
    """A VM in migration counts on both hosts; a step waits for the steps that make its room."""
    snapshot, decision = decided(strategy, seed)
    done: set[str] = set()
    for step in decision.plan:
        assert set(step.after) <= done
        done.add(step.id)
    arrivals = [step for step in decision.plan if isinstance(step, Deploy | Migrate)]
    for step in arrivals:
        assert floors_while_all_others_stay(snapshot, decision.plan.steps, step) == ""


class TestPendingReasons:
    """Reasons name the constraint in words that an administrator understands."""

    def reason(self, **parts: object) -> str:
        """| Return the reason why the only VM stays pending."""
        hosts = parts.pop("hosts", hosts_table(np.full((2, 1), 100.0)))
        columns = parts.pop("columns", {})
        vms = vms_table([-1], [[1.0]], [[50.0]], **columns)  # type: ignore[arg-type]
        snapshot = cloud(hosts, vms, **parts)  # type: ignore[arg-type]
        return strategy_named("tabu").decide(snapshot).reasons[0]

    def test_names_drained_hosts(self) -> None:
        """If all hosts are drained, the reason says that no host takes VMs."""
        hosts = hosts_table(np.full((2, 1), 100.0), state=np.array([1, 1]))
        assert "no host of market default takes VMs now" in self.reason(hosts=hosts)

    def test_names_a_market_without_hosts(self) -> None:
        """If the market's clusters are empty, the reason names the market."""
        hosts = hosts_table(np.full((2, 1), 100.0), market=np.array([1, 1]))
        markets = Markets(name=("default", "other"))
        assert "no host of market default" in self.reason(hosts=hosts, markets=markets)

    def test_names_the_requirements(self) -> None:
        """The reason contains the class of the VM's requirements."""
        reason = self.reason(
            requirements=Requirements(name=("gpu",), allowed=np.zeros((1, 2), dtype=bool)),
            columns={"requirement": np.array([0])},
        )
        assert "(gpu)" in reason

    def test_floors_name_the_nearest_host_and_the_missing_amount(self) -> None:
        """The reason names the needed floor, the nearest host and its free capacity."""
        reason = self.reason(
            hosts=hosts_table(np.array([[20.0], [30.0]])), columns={"floor": np.array([[40.0]])}
        )
        assert reason == (
            "needs 40 % of CPU as its floor; of 2 hosts that may take it host1 comes nearest,"
            " with 30 not taken by other floors"
        )

    def test_the_nearest_host_lacks_the_smallest_fraction(self) -> None:
        """A host that lacks a tenth of the memory is nearer than one that lacks half of the CPU."""
        vms = vms_table([-1], [[1.0, 0.0]], [[50.0, 2000.0]], floor=np.array([[40.0, 1000.0]]))
        hosts = hosts_table(np.array([[20.0, 4000.0], [100.0, 900.0]]))
        reason = strategy_named("tabu").decide(cloud(hosts, vms)).reasons[0]
        assert reason == (
            "needs 1,000 MiB of memory as its floor; of 2 hosts that may take it host1 comes"
            " nearest, with 900 not taken by other floors"
        )

    def test_names_the_role(self) -> None:
        """If two members must be apart and there is one host, the reason names their role."""
        snapshot = cloud(
            hosts_table(np.full((1, 1), 100.0)),
            vms_table([0, -1], np.ones((2, 1)), np.full((2, 1), 50.0), role=np.array([0, 0])),
            roles=Roles(name=("db",), policy=np.array([RolePolicy.APART])),
        )
        reason = strategy_named("paper").decide(snapshot).reasons[1]
        assert reason == "its VM group (role db) leaves none of 1 hosts"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("host", range(4))
def test_members_that_must_be_apart_are_never_on_one_host(strategy: str, host: int) -> None:
    """The second member goes elsewhere, even if the first member's host has the most room."""
    capacity = np.full((4, 2), 60.0)
    capacity[host] = 1_000.0
    alike = np.full((2, 2), 50.0)
    snapshot = cloud(
        hosts_table(capacity),
        vms_table([host, -1], alike / 50, alike, role=np.zeros(2, int)),
        roles=Roles(name=("db",), policy=np.array([RolePolicy.APART])),
    )
    after = placed(snapshot, decide(strategy, snapshot))
    assert after[1] not in {after[0], -1}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize(("policy", "host"), [(RolePolicy.APART, 2), (RolePolicy.TOGETHER, 1)])
def test_a_member_in_migration_keeps_others_from_both_hosts(
    strategy: str, running: bool, policy: RolePolicy, host: int
) -> None:
    """Members that must be apart avoid its source and target; members together go to its target."""
    capacity = np.array([[1_000.0] * 2, [200.0] * 2, [100.0] * 2, [70.0] * 2])
    alike = np.full((2, 2), 60.0)
    snapshot = cloud(
        hosts_table(capacity),
        vms_table(
            [1, 3 if running else -1],
            alike / 60,
            alike,
            state=np.array(
                [int(VmState.BUSY), int(VmState.RUNNING if running else VmState.PENDING)]
            ),
            role=np.zeros(2, int),
            source=np.array([0, -1]),
            requirement=np.array([-1, 0]),
        ),
        requirements=Requirements(
            name=("no host of 70",), allowed=np.array([[True] * 3 + [False]])
        ),
        roles=Roles(name=("db",), policy=np.array([policy])),
    )
    drained = np.array([int(HostState.ON)] * 3 + [int(HostState.DRAINED)])
    snapshot = replace(snapshot, hosts=replace(snapshot.hosts, state=drained))
    after = placed(snapshot, decide(strategy, snapshot))
    assert after.tolist() == [1, host]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("markets", [2, 3])
def test_members_of_a_group_in_several_markets_stay_together(strategy: str, markets: int) -> None:
    """No host is in two markets, so the member in the later market waits."""
    alike = np.full((2, 2), 100.0)
    snapshot = cloud(
        hosts_table(np.full((4, 2), 100.0), market=np.array([0, 1, 1, 1])),
        vms_table([-1, -1], alike / 100, alike / 2, market=np.array([0, 1]), role=np.zeros(2, int)),
        roles=Roles(name=("db",), policy=np.array([RolePolicy.TOGETHER])),
        markets=Markets(name=("first", "second", "third")[:markets]),
    )
    decision = decide(strategy, snapshot)
    assert [step.vm for step in decision.plan] == [0]
    assert "role db" in decision.reasons[1]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("order", [[0, 0, 1], [0, 1, 0], [1, 0, 0]])
def test_all_members_of_two_joined_roles_are_on_one_host(strategy: str, order: list[int]) -> None:
    """Members of one role share the host too, although the role has no policy of its own."""
    alike = np.full((3, 2), 40.0)
    snapshot = cloud(
        hosts_table(np.full((4, 2), 200.0)),
        vms_table([-1, -1, -1], alike / 10, alike, role=np.array(order)),
        roles=Roles(name=("c", "d"), policy=np.array([RolePolicy.NONE, RolePolicy.NONE])),
        role_pairs=RolePairs(np.array([0]), np.array([1]), np.array([RolePolicy.TOGETHER])),
    )
    after = placed(snapshot, decide(strategy, snapshot))
    assert len(set(after.tolist())) == 1
    assert after[0] != -1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pairs_of_members_that_are_apart_stay_together(strategy: str) -> None:
    """Two databases that must be apart each get a host with a cache."""
    alike = np.full((4, 2), 40.0)
    snapshot = cloud(
        hosts_table(np.full((4, 2), 200.0)),
        vms_table([-1] * 4, alike / 10, alike, role=np.array([0, 0, 1, 1])),
        roles=Roles(name=("db", "cache"), policy=np.array([RolePolicy.APART, RolePolicy.NONE])),
        role_pairs=RolePairs(np.array([0]), np.array([1]), np.array([RolePolicy.TOGETHER])),
    )
    after = placed(snapshot, decide(strategy, snapshot))
    assert after[0] != after[1]
    assert -1 not in after[:2]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_empty_clouds_are_accepted(strategy: str) -> None:
    """Clouds without hosts, without VMs or without both give a plan without steps."""
    for hosts, vms in ((0, 0), (0, 3), (3, 0)):
        snapshot = cloud(
            hosts_table(np.full((hosts, 2), 100.0)),
            vms_table(np.full(vms, -1), np.ones((vms, 2)), np.full((vms, 2), 50.0)),
        )
        decision = decide(strategy, snapshot)
        assert len(decision.plan) == 0
        assert set(decision.reasons) == set(range(vms))


def test_an_unknown_strategy_lists_the_known_ones() -> None:
    """The error lists the names of the known strategies."""
    with pytest.raises(KeyError, match="tabu, paper"):
        strategy_named("magic")
