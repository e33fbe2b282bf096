"""Hard constraints are never traded, by no strategy, and a plan can be carried out."""

from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import (
    Deploy,
    HostState,
    Ints,
    Markets,
    Migrate,
    Requirements,
    RolePolicy,
    Roles,
    Snapshot,
    VmState,
)
from merkatd.cluster.vms import RolePairs
from merkatd.market.market_view import market_view
from merkatd.placement import STRATEGIES, strategy_named
from tests.clouds import cloud, hosts_table, placed, tangled, vms_table
from tests.lengths import shorten

RNG = np.random.default_rng(0)


def broken(snapshot: Snapshot, host: Ints, vm: int) -> str:
    """The first rule that the VM's place breaks, in a word."""
    return broken_alone(snapshot, int(host[vm]), vm) or broken_with_others(snapshot, host, vm)


def broken_alone(snapshot: Snapshot, at: int, vm: int) -> str:
    """The rules about the VM and its host."""
    vms = snapshot.vms
    if snapshot.hosts.state[at] != HostState.ON:
        return "state"
    source = int(vms.host[vm])
    market = vms.market[vm] if source < 0 else snapshot.hosts.market[source]
    if snapshot.hosts.market[at] != market:
        return "market"
    if vms.requirement[vm] >= 0 and not snapshot.requirements.allowed[vms.requirement[vm], at]:
        return "requirement"
    return ""


def broken_with_others(snapshot: Snapshot, host: Ints, vm: int) -> str:
    """The rules about all that are on the host."""
    at = int(host[vm])
    view = market_view(snapshot, int(snapshot.hosts.market[at]))
    inside = view.vms[host[view.vms] == at]
    row = int(np.searchsorted(view.hosts, at))
    floors = view.floor[np.searchsorted(view.vms, inside)].sum(axis=0)
    if (floors > view.capacity[row] * (1 + 1e-12)).any():
        return "floors"
    return broken_in_group(snapshot, host, vm)


def broken_in_group(snapshot: Snapshot, host: Ints, vm: int) -> str:
    """The rules about all members of the VM's group, whatever market and state they are in."""
    role = int(snapshot.vms.role[vm])
    if role < 0:
        return ""
    members = np.flatnonzero((snapshot.vms.role >= 0) & (host >= 0))
    members = members[members != vm]
    alike = host[members[snapshot.vms.role[members] == role]]
    if snapshot.roles.policy[role] == RolePolicy.APART and host[vm] in alike:
        return "apart"
    were = snapshot.vms.host[members[snapshot.vms.role[members] == role]]
    beside = np.union1d(alike, were)  # a partner may move on where the group was never together
    if snapshot.roles.policy[role] == RolePolicy.TOGETHER and len(alike) and host[vm] not in beside:
        return "together"
    for other in members[host[members] == host[vm]]:
        if {int(snapshot.vms.role[other]), role} == {0, 3}:
            return "roles apart"
    return ""


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(shorten(60, 20)))
def test_wherever_a_step_puts_a_vm_it_may_be(strategy: str, seed: int) -> None:
    """And it is deployed only when pending, migrated only when it runs and may move."""
    snapshot = tangled(seed)
    decision = strategy_named(strategy).decide(snapshot, RNG)
    host = placed(snapshot, decision)
    for step in decision.plan:
        assert isinstance(step, Deploy | Migrate)
        row = snapshot.vm_row(step.vm)
        assert broken(snapshot, host, row) == ""
        if isinstance(step, Migrate):
            assert snapshot.vms.host[row] == snapshot.host_row(step.source) != host[row]
            assert snapshot.vms.movable[row]
        else:
            assert snapshot.vms.host[row] == -1
        assert step.reason


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(shorten(40, 20)))
def test_every_pending_vm_is_deployed_or_told_why_not(strategy: str, seed: int) -> None:
    """Those of a market; others are not ours to place."""
    snapshot = tangled(seed)
    decision = strategy_named(strategy).decide(snapshot, RNG)
    pending = {
        int(snapshot.vms.id[row])
        for row in np.flatnonzero((snapshot.vms.host < 0) & (snapshot.vms.market >= 0))
    }
    deployed = {step.vm for step in decision.plan.of(Deploy)}
    assert pending - deployed <= set(decision.reasons)
    assert not deployed & set(decision.reasons)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(shorten(60, 20)))
def test_on_the_way_no_host_is_fuller_than_its_floors_allow(strategy: str, seed: int) -> None:
    """A VM on its way stands on both hosts; a step starts when all it comes after are done."""
    snapshot = tangled(seed)
    decision = strategy_named(strategy).decide(snapshot, RNG)
    done: set[str] = set()
    for step in decision.plan:
        assert isinstance(step, Deploy | Migrate)
        assert set(step.after) <= done
        done.add(step.id)
    for step in decision.plan:
        assert isinstance(step, Deploy | Migrate)
        assert floors_with_all_but(snapshot, decision.plan.steps, step) == ""


def floors_with_all_but(
    snapshot: Snapshot, steps: tuple[object, ...], step: Deploy | Migrate
) -> str:
    """Whether the step's host has room when only those have left that it comes after."""
    view = market_view(snapshot, int(snapshot.hosts.market[snapshot.host_row(step.host)]))
    host = int(np.searchsorted(view.hosts, snapshot.host_row(step.host)))
    there = set(np.flatnonzero(view.place == host).tolist())
    for other in steps:
        assert isinstance(other, Deploy | Migrate)
        row = int(np.searchsorted(view.vms, snapshot.vm_row(other.vm)))
        if isinstance(other, Migrate) and other.id in step.after and other.source == step.host:
            there.discard(row)
    there.add(int(np.searchsorted(view.vms, snapshot.vm_row(step.vm))))
    rows = sorted(there)
    fits = (view.floor[rows].sum(axis=0) <= view.capacity[host] * (1 + 1e-12)).all()
    return "" if fits else f"{step.vm} does not fit on {step.host}"


class TestPendingReasons:
    """Each constraint is named in words an administrator understands."""

    def reason(self, **parts: object) -> str:
        """Why the only VM stays pending."""
        hosts = parts.pop("hosts", hosts_table(np.full((2, 1), 100.0)))
        columns = parts.pop("columns", {})
        vms = vms_table([-1], [[1.0]], [[50.0]], **columns)  # type: ignore[arg-type]
        snapshot = cloud(hosts, vms, **parts)  # type: ignore[arg-type]
        return strategy_named("tabu").decide(snapshot, RNG).reasons[0]

    def test_no_host_takes_vms(self) -> None:
        """All are drained."""
        hosts = hosts_table(np.full((2, 1), 100.0), state=np.array([1, 1]))
        assert "no host of market default takes VMs now" in self.reason(hosts=hosts)

    def test_a_market_without_hosts(self) -> None:
        """Its clusters are empty."""
        hosts = hosts_table(np.full((2, 1), 100.0), market=np.array([1, 1]))
        markets = Markets(name=("default", "other"))
        assert "no host of market default" in self.reason(hosts=hosts, markets=markets)

    def test_requirements_are_named(self) -> None:
        """The class of the VM's requirements stands in the reason."""
        reason = self.reason(
            requirements=Requirements(name=("gpu",), allowed=np.zeros((1, 2), dtype=bool)),
            columns={"requirement": np.array([0])},
        )
        assert "(gpu)" in reason

    def test_floors_name_the_nearest_host_and_what_is_missing(self) -> None:
        """What would satisfy it can be read off."""
        reason = self.reason(
            hosts=hosts_table(np.array([[20.0], [30.0]])), columns={"floor": np.array([[40.0]])}
        )
        assert reason == (
            "needs 40 cpu as its floor; of 2 hosts that may take it host1 comes nearest,"
            " with 30 not taken by other floors"
        )

    def test_the_nearest_host_is_the_one_that_lacks_the_least_part(self) -> None:
        """A hundred MiB of a thousand are less than twenty units of CPU of forty."""
        vms = vms_table([-1], [[1.0, 0.0]], [[50.0, 2000.0]], floor=np.array([[40.0, 1000.0]]))
        hosts = hosts_table(np.array([[20.0, 4000.0], [100.0, 900.0]]))
        reason = strategy_named("tabu").decide(cloud(hosts, vms), RNG).reasons[0]
        assert reason == (
            "needs 1,000 memory as its floor; of 2 hosts that may take it host1 comes nearest,"
            " with 900 not taken by other floors"
        )

    def test_roles_are_named(self) -> None:
        """Two members that must be apart, one host."""
        snapshot = cloud(
            hosts_table(np.full((1, 1), 100.0)),
            vms_table([0, -1], np.ones((2, 1)), np.full((2, 1), 50.0), role=np.array([0, 0])),
            roles=Roles(name=("db",), policy=np.array([RolePolicy.APART])),
        )
        reason = strategy_named("paper").decide(snapshot, RNG).reasons[1]
        assert reason == "its VM group (role db) leaves none of 1 hosts"


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("host", range(4))
def test_members_that_must_be_apart_are_on_whichever_host_the_first_one_is(
    strategy: str, host: int
) -> None:
    """Though it alone has all that both can use."""
    capacity = np.full((4, 2), 30.0)
    capacity[host] = 1_000.0
    alike = np.full((2, 2), 50.0)
    snapshot = cloud(
        hosts_table(capacity),
        vms_table([host, -1], alike / 50, alike, role=np.zeros(2, int)),
        roles=Roles(name=("db",), policy=np.array([RolePolicy.APART])),
    )
    after = placed(snapshot, strategy_named(strategy).decide(snapshot, RNG))
    assert after[1] not in {after[0], -1}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize(("policy", "host"), [(RolePolicy.APART, 2), (RolePolicy.TOGETHER, 1)])
def test_a_member_that_is_being_migrated_keeps_others_from_both_hosts(
    strategy: str, running: bool, policy: RolePolicy, host: int
) -> None:
    """It goes from the best host to the next one. VMs that must be with it follow it there."""
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
    after = placed(snapshot, strategy_named(strategy).decide(snapshot, RNG))
    assert after.tolist() == [1, host]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("markets", [2, 3])
def test_members_of_a_vm_group_in_several_markets_are_kept_together(
    strategy: str, markets: int
) -> None:
    """No host is of two markets: the member of the later market waits."""
    alike = np.full((2, 2), 100.0)
    snapshot = cloud(
        hosts_table(np.full((4, 2), 100.0), market=np.array([0, 1, 1, 1])),
        vms_table([-1, -1], alike / 100, alike / 2, market=np.array([0, 1]), role=np.zeros(2, int)),
        roles=Roles(name=("db",), policy=np.array([RolePolicy.TOGETHER])),
        markets=Markets(name=("first", "second", "third")[:markets]),
    )
    decision = strategy_named(strategy).decide(snapshot, RNG)
    assert [step.vm for step in decision.plan] == [0]
    assert "role db" in decision.reasons[1]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("order", [[0, 0, 1], [0, 1, 0], [1, 0, 0]])
def test_all_members_of_two_roles_that_belong_together_are_on_one_host(
    strategy: str, order: list[int]
) -> None:
    """Those of one role too, although it has no policy of its own."""
    alike = np.full((3, 2), 40.0)
    snapshot = cloud(
        hosts_table(np.full((4, 2), 200.0)),
        vms_table([-1, -1, -1], alike / 10, alike, role=np.array(order)),
        roles=Roles(name=("c", "d"), policy=np.array([RolePolicy.NONE, RolePolicy.NONE])),
        role_pairs=RolePairs(np.array([0]), np.array([1]), np.array([RolePolicy.TOGETHER])),
    )
    after = placed(snapshot, strategy_named(strategy).decide(snapshot, RNG))
    assert len(set(after.tolist())) == 1
    assert after[0] != -1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pairs_of_members_that_are_apart_are_each_together(strategy: str) -> None:
    """Two databases apart from each other, each beside a cache."""
    alike = np.full((4, 2), 40.0)
    snapshot = cloud(
        hosts_table(np.full((4, 2), 200.0)),
        vms_table([-1] * 4, alike / 10, alike, role=np.array([0, 0, 1, 1])),
        roles=Roles(name=("db", "cache"), policy=np.array([RolePolicy.APART, RolePolicy.NONE])),
        role_pairs=RolePairs(np.array([0]), np.array([1]), np.array([RolePolicy.TOGETHER])),
    )
    after = placed(snapshot, strategy_named(strategy).decide(snapshot, RNG))
    assert after[0] != after[1]
    assert -1 not in after[:2]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_empty_clouds_are_no_trouble(strategy: str) -> None:
    """No hosts, no VMs, neither."""
    for hosts, vms in ((0, 0), (0, 3), (3, 0)):
        snapshot = cloud(
            hosts_table(np.full((hosts, 2), 100.0)),
            vms_table(np.full(vms, -1), np.ones((vms, 2)), np.full((vms, 2), 50.0)),
        )
        decision = strategy_named(strategy).decide(snapshot, RNG)
        assert len(decision.plan) == 0
        assert set(decision.reasons) == set(range(vms))


def test_an_unknown_strategy_is_answered_with_those_there_are() -> None:
    """The message helps."""
    with pytest.raises(KeyError, match="tabu, paper"):
        strategy_named("magic")
