"""Four goods: network and disk shares follow bids, and only differences are sent to hosts."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Deploy, Plan, Snapshot, Throttle, VmState
from merkatd.limits import BEYOND, UNSET, EnforcedLimits
from merkatd.limits.enforced_limits import DISK, NETWORK
from merkatd.limits.io_limits import io_rates
from tests.clouds import cloud, hosts_table, vms_table
from tests.limits.hosts import decide_shares, limits_of

GOODS = ("cpu", "memory", "network", "disk")
HOST = [400.0, 8192.0, 1000.0, 200.0]


def two_bids() -> Snapshot:
    """Return bids of 1 and 3 for network, 1 and 1 for disk; each VM can use the whole host."""
    cap = [[100.0, 1024.0, 1000.0, 200.0]] * 2
    bid = [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 3.0, 1.0]]
    snapshot = cloud(
        hosts_table(np.array([HOST])),
        vms_table(np.zeros(2, dtype=np.int64), np.array(bid), np.array(cap)),
    )
    return replace(snapshot, resources=GOODS)


def throttles(snapshot: Snapshot, in_force: EnforcedLimits | None = None) -> tuple[Throttle, ...]:
    """Return the steps for network and disk."""
    return limits_of(snapshot, decide_shares(snapshot), in_force).plan.of(Throttle)


def with_further(snapshot: Snapshot, network: list[int], disk: list[int]) -> EnforcedLimits:
    """Return these limits as limits in force."""
    further = {NETWORK: np.array(network), DISK: np.array(disk)}
    return replace(EnforcedLimits.nothing(snapshot), further=further)


def test_shares_become_limits_with_a_reason() -> None:
    """The shares are 250 and 750 of 1,000 Mbit/s at 125 kB/s each, and 100 MiB/s of disk."""
    first, second = throttles(two_bids())
    assert first == Throttle(
        period=1,
        vm=0,
        network_kb_s=31_250,
        disk_kib_s=102_400,
        reason="its share of host0's network is 250 of 1,000: its bid is 1 of 4 there;"
        " its share of host0's disk is 100 of 200: its bid is 1 of 2 there",
    )
    assert (second.network_kb_s, second.disk_kib_s) == (93_750, 102_400)


def test_only_differences_are_sent() -> None:
    """Differences within 2 % are not sent, and only the good that differs is."""
    snapshot = two_bids()
    settled = with_further(snapshot, [31_000, 93_750], [102_400, 104_000])
    assert throttles(snapshot, settled) == ()
    off = with_further(snapshot, [31_250, 93_750], [102_400, UNSET])
    (step,) = throttles(snapshot, off)
    assert (step.vm, step.network_kb_s, step.disk_kib_s) == (1, None, 102_400)


def test_goods_that_cannot_be_limited_get_no_steps() -> None:
    """This holds for a VM without interfaces, or on a hypervisor without such limits."""
    snapshot = two_bids()
    assert throttles(snapshot, with_further(snapshot, [BEYOND] * 2, [BEYOND] * 2)) == ()


def test_goods_that_are_not_sold_get_no_steps() -> None:
    """With CPU and memory alone, limits in force on other goods stay."""
    wide = two_bids()
    hosts = hosts_table(np.array([HOST[:2]]))
    vms = vms_table(np.zeros(2, dtype=np.int64), wide.vms.bid[:, :2], wide.vms.cap[:, :2])
    snapshot = cloud(hosts, vms)
    assert throttles(snapshot, with_further(snapshot, [5, 5], [5, 5])) == ()


def test_a_limit_waits_for_the_deployment() -> None:
    """A VM that is deployed gets its limit after that step."""
    snapshot = two_bids()
    vms = replace(
        snapshot.vms,
        host=np.array([-1, 0]),
        state=np.array([int(VmState.PENDING), int(VmState.RUNNING)]),
    )
    snapshot = replace(snapshot, vms=vms)
    deploy = Deploy(period=1, vm=0, host=0, reason="")
    decision = replace(decide_shares(snapshot, deploy), plan=Plan((deploy,)))
    first = next(step for step in limits_of(snapshot, decision).plan.of(Throttle) if step.vm == 0)
    assert first.after == (deploy.id,)
    assert first.network_kb_s == 31_250


@settings(deadline=None)
@given(share=st.lists(st.floats(0, 1e9), min_size=1, max_size=9))
def test_a_limit_is_never_zero_nor_above_its_share(share: list[float]) -> None:
    """The only exception is the least rate of 1 Mbit/s."""
    limit = io_rates(np.array(share), NETWORK)
    assert (limit >= 125).all()
    above = limit - np.maximum(np.array(share), 1.0) * 125
    assert (above <= 1e-3).all()
    assert (above > -1.001).all()
