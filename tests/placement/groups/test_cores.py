"""Phase 2 after phases 1 and 3: the pins that `groups` computes are those of the paper."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.limits.core_assignment import assign_cores
from merkatd.limits.enforced_limits import Pinned, Topology
from tests.clouds import cloud, hosts_table, placed, vms_table
from tests.lengths import EXAMPLES
from tests.placement.groups.printed_cores import printed_cores
from tests.placement.groups.test_groups import decided

GAIN, NONE = 20.0, 1e9
VMS = st.lists(st.tuples(st.floats(1.0, 100.0), st.integers(1, 6)), min_size=1, max_size=10)


@settings(max_examples=EXAMPLES)
@given(VMS, st.integers(1, 3), st.integers(1, 6))
def test_virtual_cpus_of_a_vm_share_a_core_only_if_no_core_is_free(
    vms: list[tuple[float, int]], hosts: int, cores: int
) -> None:
    """Each virtual CPU gets one core of its host; a VM's CPUs share a core only if none is free."""
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
        ours = [Pinned(vm, int(vcpus[vm]), float(share[vm]), rate=float(rates[vm])) for vm in there]
        chosen = assign_cores(Topology(dict.fromkeys(range(cores), 0)), ours, GAIN)
        assert sorted(chosen) == there
        for vm, taken in chosen.items():
            assert len(taken) == vcpus[vm]
            assert vcpus[vm] > cores or len(set(taken)) == vcpus[vm]


def cores_of(rates: list[float], vcpus: list[int], cores: int, gain: float) -> list[list[int]]:
    """Return the cores of each VM on a node; shares follow the rates up to the VM's size."""
    part = cores * 100.0 / sum(rates)
    ours = [
        Pinned(vm, count, min(rate * part, count * 100.0), rate=rate)
        for vm, (rate, count) in enumerate(zip(rates, vcpus, strict=True))
    ]
    chosen = assign_cores(Topology(dict.fromkeys(range(cores), 0)), ours, gain)
    return [sorted(chosen[vm]) for vm in range(len(rates))]


def busiest_load(
    rates: list[float], vcpus: list[int], cores: int, chosen: list[list[int]]
) -> float:
    """Return the demand on the busiest core, in percent."""
    part, load = cores * 100.0 / sum(rates), np.zeros(cores)
    for rate, count, taken in zip(rates, vcpus, chosen, strict=True):
        np.add.at(load, taken, min(rate * part / count, 100.0))
    return float(load.max())


def test_cores_match_the_papers_figure_5() -> None:
    """Of two VMs with three virtual CPUs on four cores, the second starts at the free core."""
    assert cores_of([35.0, 20.0], [3, 3], 4, GAIN) == [[0, 1, 2], [0, 1, 3]]
    assert cores_of([30.0, 30.0], [3, 3], 4, GAIN) == [[0, 1, 2], [0, 1, 3]]


@settings(max_examples=EXAMPLES)
@given(st.lists(st.tuples(st.integers(1, 100), st.integers(1, 6)), max_size=10), st.integers(1, 6))
def test_cores_match_the_papers_algorithm(vms: list[tuple[int, int]], cores: int) -> None:
    """Cores chosen by price equal the paper's; with load, no core is busier than the paper's."""
    rates, vcpus = [float(rate) for rate, _ in vms], [count for _, count in vms]
    if not vms:
        return
    printed = [sorted(taken) for taken in printed_cores(rates, vcpus, cores)]
    assert cores_of(rates, vcpus, cores, NONE) == printed
    ours = busiest_load(rates, vcpus, cores, cores_of(rates, vcpus, cores, GAIN))
    assert ours <= busiest_load(rates, vcpus, cores, printed) + 0.01


def test_load_corrects_misleading_prices() -> None:
    """A VM moves from a cheap but fully used core to a core with free capacity.

    In this example one VM's rate on four cores makes each of them as expensive as a core with a VM
    of its own. The paper puts the last VM on the cheapest core, which another VM uses completely.
    The four shared cores have room for it.
    """
    rates, vcpus = [40.0, 40.0, 30.0, 20.0, 20.0, 10.0], [4, 1, 1, 1, 1, 1]
    printed = printed_cores(rates, vcpus, 8)
    assert (printed[5], busiest_load(rates, vcpus, 8, printed)) == ([6], 150.0)
    ours = cores_of(rates, vcpus, 8, GAIN)
    assert (ours[5], busiest_load(rates, vcpus, 8, ours)) == ([0], 100.0)
