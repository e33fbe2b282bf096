"""Limits of a whole cloud: which steps are sent, in which order, and when none are."""

from dataclasses import replace

import numpy as np

from merkatd.cluster import (
    Deploy,
    HostState,
    Limit,
    Migrate,
    Pin,
    Snapshot,
    Suspend,
    VmState,
)
from merkatd.limits import UNSET, CpuSettings, EnforcedLimits, LimitsSettings, PinSettings, Topology
from tests.clouds import cloud, hosts_table, vms_table
from tests.limits.clouds import FOUR_CORES, three_bids, two_hosts
from tests.limits.hosts import (
    confirmed,
    decide_shares,
    limits_of,
    measured,
    one_host,
)
from tests.limits.hosts import make_decision as decided


def settle(snapshot: Snapshot) -> EnforcedLimits:
    """Return the limits in force after all shares of the snapshot are set."""
    limits = limits_of(snapshot, decide_shares(snapshot))
    return confirmed(snapshot, EnforcedLimits.nothing(snapshot), limits.plan.steps)[1]


def test_a_limit_has_share_weight_and_reason() -> None:
    """150 of 400 for a bid of 3 of 8 is 37,500 us for each of four virtual CPUs."""
    first = limits_of(three_bids(), decide_shares(three_bids())).plan.of(Limit)[0]
    assert first == Limit(
        period=1,
        vm=0,
        reason="its share of host0's cpu is 150 of 400: its bid is 3 of 8 there",
        vcpu_quota_us=37_500,
        global_quota_us=157_500,
        quota_period_us=100_000,
        shares=262_144,
    )


def test_the_reason_names_what_determines_the_share() -> None:
    """Cap, floor, a missing bid and a large bid have reasons of their own."""
    snapshot = one_host(
        [400.0, 8192.0],
        bid=[[1.0, 1.0], [1e-9, 1.0], [0.0, 1.0], [1e12, 1.0]],
        cap=[[500.0, 1024.0], [100.0, 1024.0], [100.0, 1024.0], [100.0, 1024.0]],
        floor=[[0.0, 0.0], [50.0, 0.0], [0.0, 0.0], [0.0, 0.0]],
        held=np.tile([np.nan, 1024.0], (4, 1)),
    )
    limits = limits_of(snapshot, decide_shares(snapshot))
    assert [step.reason for step in limits.plan.of(Limit)][1:] == [
        "its share of host0's cpu is 50 of 400, its floor",
        "its share of host0's cpu is 0 of 400: it bids nothing there",
        "its share of host0's cpu is 100 of 400, all that it can use",
    ]


def test_small_bids_appear_in_the_reason() -> None:
    """A bid of 0.001 is not rounded to zero."""
    snapshot = replace(three_bids(), vms=replace(three_bids().vms, bid=np.full((3, 2), 0.001)))
    first = limits_of(snapshot, decide_shares(snapshot)).plan.of(Limit)[0]
    assert first.reason.endswith("its bid is 0.001 of 0.003 there")


def test_a_change_of_only_the_weight_has_its_own_reason() -> None:
    """A VM at its full size gains only weight from a higher bid."""
    snapshot = one_host([400.0, 8192.0], bid=[[1.0, 1.0], [3.0, 1.0]])
    in_force = settle(snapshot)
    snapshot = replace(snapshot, vms=replace(snapshot.vms, bid=np.array([[2.0, 1.0], [3.0, 1.0]])))
    (step,) = limits_of(snapshot, decide_shares(snapshot), in_force).plan
    assert isinstance(step, Limit)
    assert step.reason == "its weight on host0 follows its bid for cpu: 2 of 5 there"


def test_small_differences_are_not_sent() -> None:
    """A difference within the band is not sent; with a band of zero it is."""
    snapshot = three_bids()
    in_force = settle(snapshot)
    shares = decide_shares(snapshot).allocations * [[1.01, 1.0]]
    assert not limits_of(snapshot, decided(snapshot, shares), in_force).plan
    exact = LimitsSettings(cpu=CpuSettings(band_units=0.0, band_part=0.0))
    plan = limits_of(snapshot, decided(snapshot, shares), in_force, settings=exact).plan
    assert [step.vm for step in plan.of(Limit)] == [0, 1, 2]


def test_vms_that_cannot_be_limited_get_no_steps() -> None:
    """This holds without a market, and for busy, stopped, pending, leaving, or away VMs."""
    count = 9
    states = np.full(count, int(VmState.RUNNING))
    states[1:6] = [
        VmState.BUSY,
        VmState.SUSPENDED,
        VmState.POWERED_OFF,
        VmState.PENDING,
        VmState.ABSENT,
    ]
    market = np.zeros(count, dtype=np.int64)
    market[0] = -1
    snapshot = cloud(
        hosts_table(
            np.tile([400.0, 65536.0], (3, 1)),
            state=np.array([HostState.ON, HostState.OFF, HostState.ON]),
            market=np.array([0, 0, -1]),
        ),
        vms_table(
            [0, 0, 0, 0, -1, 0, 0, 1, 2],
            np.ones((count, 2)),
            np.tile([100.0, 1024.0], (count, 1)),
            state=states,
            market=market,
            held=np.tile([np.nan, 512.0], (count, 1)),
        ),
    )
    suspend = Suspend(period=1, vm=6, reason="can't pay")
    topologies = dict.fromkeys(range(3), FOUR_CORES)
    limits = limits_of(snapshot, decide_shares(snapshot, suspend), topologies=topologies)
    assert limits.plan.steps == (suspend,)
    assert limits.holding_mib == {}


def test_limits_follow_the_deployment() -> None:
    """A new VM's limit waits for the step that deploys it."""
    snapshot = one_host([400.0, 8192.0], bid=[[1.0, 1.0]], host=np.array([-1]), vcpus=[2])
    deploy = Deploy(period=1, vm=0, host=0, reason="new")
    limits = limits_of(snapshot, decide_shares(snapshot, deploy), topologies={0: FOUR_CORES})
    assert [step.kind for step in limits.plan] == ["deploy", "pin", "limit"]
    assert limits.plan.of(Limit)[0].after == (deploy.id,)
    assert limits.plan.of(Limit)[0].global_quota_us == 100_000
    assert limits.plan.of(Pin)[0].after == (deploy.id,)


def test_pins_are_removed_before_a_migration_and_set_after_it() -> None:
    """The target may lack the cores, so Merkat's own pins are removed first."""
    snapshot = two_hosts()
    in_force = replace(EnforcedLimits.nothing(snapshot), pins={0: ((0,), (1,))})
    move = Migrate(period=1, vm=0, source=0, host=1, reason="better there")
    topologies = {0: FOUR_CORES, 1: Topology({5: 0, 6: 0})}
    limits = limits_of(snapshot, decide_shares(snapshot, move), in_force, topologies)
    free, bind = limits.plan.of(Pin)
    assert (free.cores, free.after) == ((), ())
    assert limits.plan.of(Migrate)[0].after == (free.id,)
    assert (bind.cores, bind.after) == (((5,), (6,)), (move.id,))
    assert limits.plan.of(Limit)[0].after == (move.id,)
    assert free.reason == "is about to migrate to host1, which has other cores"


def test_limits_are_set_again_after_a_migration() -> None:
    """Also unchanged limits are set, and cores are chosen for the new host."""
    snapshot = cloud(
        hosts_table(np.tile([400.0, 8192.0], (2, 1))),
        vms_table(
            [0, 1],
            np.ones((2, 2)),
            np.tile([100.0, 1024.0], (2, 1)),
            held=np.tile([np.nan, 1024.0], (2, 1)),
        ),
    )
    topologies = {0: FOUR_CORES, 1: FOUR_CORES}
    first = limits_of(snapshot, decide_shares(snapshot), topologies=topologies)
    _, in_force = confirmed(snapshot, EnforcedLimits.nothing(snapshot), first.plan.steps)
    move = Migrate(period=1, vm=0, source=0, host=1, reason="")
    still = LimitsSettings(pins=PinSettings(least_gain_units=1000.0))
    limits = limits_of(snapshot, decide_shares(snapshot, move), in_force, topologies, still)
    assert [step.vm for step in limits.plan.of(Limit)] == [0]
    assert [step.cores for step in limits.plan.of(Pin)] == [(), ((1,),)]


def test_pins_are_removed_from_hosts_without_pinning() -> None:
    """On a host without a topology own pins are removed, and quotas are per virtual CPU."""
    snapshot = two_hosts()
    in_force = replace(EnforcedLimits.nothing(snapshot), pins={0: ((0,), (1,))})
    limits = limits_of(snapshot, decide_shares(snapshot), in_force)
    (free,) = limits.plan.of(Pin)
    assert free.cores == ()
    assert limits.plan.of(Limit)[0].vcpu_quota_us == 100_000


def test_a_strayed_emulator_thread_is_pinned_again() -> None:
    """The same pins are sent once more, unless OpenNebula pins the VM."""
    snapshot = two_hosts()
    topologies = {0: FOUR_CORES}
    first = limits_of(snapshot, decide_shares(snapshot), topologies=topologies)
    _, there = confirmed(snapshot, EnforcedLimits.nothing(snapshot), first.plan.steps)
    assert not limits_of(snapshot, decide_shares(snapshot), there, topologies).plan.steps
    strayed = replace(there, emulators_off=frozenset({0}))
    (again,) = limits_of(snapshot, decide_shares(snapshot), strayed, topologies).plan.of(Pin)
    assert again.cores == there.pins[0]
    assert again.reason == "its emulator threads are not on the cores that host0 reserves for them"
    theirs = replace(strayed, pin_policy=np.array([True]))
    assert not limits_of(snapshot, decide_shares(snapshot), theirs, topologies).plan.of(Pin)


def test_a_missing_quota_of_the_whole_vm_is_set() -> None:
    """The quota of the whole VM counts too, if it is missing or different."""
    snapshot = three_bids()
    there = settle(snapshot)
    assert not limits_of(snapshot, decide_shares(snapshot), there).plan.of(Limit)
    for other_us in (UNSET, 2 * int(there.global_quota_us[1])):
        quota = there.global_quota_us.copy()
        quota[1] = other_us
        changed = replace(there, global_quota_us=quota)
        (step,) = limits_of(snapshot, decide_shares(snapshot), changed).plan.of(Limit)
        assert (step.vm, step.global_quota_us) == (1, there.global_quota_us[1])


def test_a_vm_with_a_pin_policy_keeps_its_pins() -> None:
    """OpenNebula's own pins stay, and the quota is for the whole VM."""
    snapshot = two_hosts()
    in_force = replace(
        EnforcedLimits.nothing(snapshot), pins={0: ((2,), (3,))}, pin_policy=np.array([True])
    )
    for topologies in ({}, {0: FOUR_CORES}):
        limits = limits_of(snapshot, decide_shares(snapshot), in_force, topologies)
        assert not limits.plan.of(Pin)
        assert limits.plan.of(Limit)[0].global_quota_us == 200_000


def test_a_vm_with_a_postponed_migration_is_limited_on_its_host() -> None:
    """The limit follows its share on the present host."""
    snapshot = cloud(
        hosts_table(np.array([[400.0, 8192.0], [400.0, 512.0]])),
        two_hosts().vms,
    )
    in_force = measured(snapshot, [1000.0], pins={0: ((0,), (1,))})
    move = Migrate(period=1, vm=0, source=0, host=1, reason="")
    topologies = {0: FOUR_CORES, 1: FOUR_CORES}
    limits = limits_of(snapshot, decide_shares(snapshot, move), in_force, topologies)
    assert list(limits.postponed) == [0]
    (limit,) = limits.plan.of(Limit)
    assert (limit.vm, limit.global_quota_us) == (0, 200_000)
    assert not limits.plan.of(Migrate)
