"""Limits at the edges, and properties that hold for any cloud."""

from dataclasses import replace
from time import process_time

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import (
    Balloon,
    Deploy,
    Limit,
    Migrate,
    Pin,
    Plan,
    VmState,
)
from merkatd.limits import EnforcedLimits, LimitsSettings, MemorySettings, Topology, plan_limits
from tests.clouds import cloud, hosts_table, vms_table
from tests.lengths import EXAMPLES
from tests.limits.clouds import FOUR_CORES, three_bids, two_hosts
from tests.limits.hosts import (
    CPU,
    MEMORY,
    confirmed,
    decide_shares,
    limits_of,
    measured,
    observed,
    one_host,
)


def test_empty_clouds_get_no_steps() -> None:
    """Clouds without VMs, without hosts or with hosts of size zero are handled."""
    nothing = cloud(
        hosts_table(np.zeros((0, 2))), vms_table([], np.zeros((0, 2)), np.zeros((0, 2)))
    )
    assert not limits_of(nothing, decide_shares(nothing)).plan
    idle = cloud(hosts_table(np.zeros((1, 2))), nothing.vms)
    assert not limits_of(idle, decide_shares(idle), topologies={0: FOUR_CORES}).plan
    poor = one_host([0.0, 0.0], bid=[[1e12, 1e12]], floor=[[10.0, 64.0]])
    limits = limits_of(poor, decide_shares(poor))
    assert limits.plan.of(Limit)[0].vcpu_quota_us == 1_000
    assert list(limits.overfull) == [0]


def test_removed_hosts_and_vms_are_ignored() -> None:
    """Pins of VMs and topologies of hosts outside of the snapshot have no effect."""
    snapshot = two_hosts()
    in_force = replace(EnforcedLimits.nothing(snapshot), pins={77: ((0,),)})
    assert limits_of(snapshot, decide_shares(snapshot), in_force, {99: FOUR_CORES}).plan.of(Limit)


def test_a_missing_resource_leaves_the_other_unchanged() -> None:
    """Without memory or without CPU, the other resource is limited as usual."""
    snapshot = three_bids()
    for column, kind in ((CPU, Limit), (MEMORY, Balloon)):
        vms = snapshot.vms
        alone = replace(
            snapshot,
            resources=(snapshot.resources[column],),
            hosts=replace(snapshot.hosts, capacity=snapshot.hosts.capacity[:, [column]] / 8),
            vms=replace(
                vms,
                **{
                    name: getattr(vms, name)[:, [column]]
                    for name in ("bid", "floor", "cap", "held")
                },
            ),
        )
        limits = limits_of(alone, decide_shares(alone), measured(alone, [0.0, 0.0, 0.0]))
        assert {type(step) for step in limits.plan} == {kind}


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 10**6))
def test_repeating_the_decision_changes_nothing(seed: int) -> None:
    """After confirmation only memory still moves, until nothing is left to change."""
    snapshot, decision, in_force, topologies = observed(seed)
    memory = MemorySettings(most_step_mib=10**9, most_step_part=1.0)
    chosen = LimitsSettings(memory=memory)
    for _ in range(4):
        limits = plan_limits(snapshot, decision, in_force, topologies, chosen)
        if limits.postponed:
            return
        snapshot, in_force = confirmed(snapshot, in_force, limits.plan.steps)
        decision = replace(decision, plan=Plan())
        again = plan_limits(snapshot, decision, in_force, topologies, chosen)
        assert {type(step) for step in again.plan} <= {Balloon}
    assert not again.plan


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 10**6))
def test_steps_are_ordered_and_values_are_valid(seed: int) -> None:
    """In any cloud, a step comes after those it waits for, and hosts accept every value."""
    snapshot, decision, in_force, topologies = observed(seed)
    limits = limits_of(snapshot, decision, in_force, topologies)
    done: set[str] = set()
    known = {step.id for step in limits.plan}
    for step in limits.plan:
        assert known.intersection(step.after) <= done
        assert set(step.after) <= known
        done.add(step.id)
        assert step.reason
    kept = {step.vm for step in limits.plan if isinstance(step, Deploy | Migrate)}
    assert kept | set(limits.postponed) == {step.vm for step in decision.plan}
    for limit in limits.plan.of(Limit):
        vcpus = int(snapshot.vms.vcpus[snapshot.vm_row(limit.vm)])
        assert limit.global_quota_us is not None
        quota = limit.vcpu_quota_us or limit.global_quota_us
        assert 1_000 <= quota <= 100_000 * vcpus
        assert 2 <= limit.shares <= 262_144
    for balloon in limits.plan.of(Balloon):
        row = snapshot.vm_row(balloon.vm)
        assert 0 <= balloon.memory_mib <= snapshot.vms.cap[row, MEMORY]
    limited = {step.vm for step in limits.plan if isinstance(step, Limit | Pin | Balloon)}
    for vm in limited - kept:
        row = snapshot.vm_row(vm)
        assert snapshot.vms.state[row] == VmState.RUNNING
        assert snapshot.vms.market[row] >= 0


def test_ten_thousand_vms_are_limited_within_seconds() -> None:
    """All limits and pins of 1,000 hosts are computed within seconds."""
    rng = np.random.default_rng(3)
    hosts, count = 1_000, 10_000
    snapshot = cloud(
        hosts_table(np.tile([3200.0, 262144.0], (hosts, 1))),
        vms_table(
            rng.integers(0, hosts, count),
            rng.lognormal(0, 1, (count, 2)),
            np.tile([800.0, 49152.0], (count, 1)),
            vcpus=np.full(count, 8),
            held=np.tile([np.nan, 16384.0], (count, 1)),
        ),
    )
    decision = decide_shares(snapshot)
    topology = Topology({core: core // 16 for core in range(32)})
    started_s = process_time()
    limits = limits_of(
        snapshot,
        decision,
        measured(snapshot, [4096.0] * count),
        dict.fromkeys(range(hosts), topology),
    )
    assert process_time() - started_s < 10
    assert len(limits.plan.of(Limit)) == count
    assert len(limits.plan.of(Pin)) == count
