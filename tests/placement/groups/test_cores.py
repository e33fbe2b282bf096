"""Phase 2 behind phases 1 and 3: what `groups` decides is pinned as the paper has it."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.limits.pins import pins
from merkatd.limits.topology import Pinned, Topology
from tests.clouds import cloud, hosts_table, placed, vms_table
from tests.placement.groups.test_groups import decided

GAIN = 20.0
VMS = st.lists(st.tuples(st.floats(1.0, 100.0), st.integers(1, 6)), min_size=1, max_size=10)


@settings(deadline=None)
@given(VMS, st.integers(1, 3), st.integers(1, 6))
def test_no_two_of_a_vms_virtual_cpus_share_a_core_while_another_is_free(
    vms: list[tuple[float, int]], hosts: int, cores: int
) -> None:
    """And each virtual CPU has exactly one core of its VM's host."""
    rates, vcpus = np.array([rate for rate, _ in vms]), np.array([count for _, count in vms])
    snapshot = cloud(
        hosts_table(np.tile([cores * 100.0, 65536.0], (hosts, 1))),
        vms_table(
            np.full(len(vms), -1),
            np.stack([rates, np.zeros(len(vms))], axis=1),
            np.stack([vcpus * 100.0, np.full(len(vms), 64.0)], axis=1),
            vcpus=vcpus,
        ),
    )
    decision = decided(snapshot)
    place, share = placed(snapshot, decision), decision.allocations[:, 0]
    for host in range(hosts):
        there = np.flatnonzero(place == host).tolist()
        ours = [Pinned(vm, int(vcpus[vm]), float(share[vm])) for vm in there]
        chosen = pins(Topology(dict.fromkeys(range(cores), 0)), ours, GAIN)
        assert sorted(chosen) == there
        for vm, taken in chosen.items():
            assert len(taken) == vcpus[vm]
            assert vcpus[vm] > cores or len(set(taken)) == vcpus[vm]
