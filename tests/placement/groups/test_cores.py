"""Phase 2 behind phases 1 and 3: what `groups` decides is pinned as the paper has it."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.limits.core_assignment import assign_cores
from merkatd.limits.enforced_limits import Pinned, Topology
from tests.clouds import cloud, hosts_table, placed, vms_table
from tests.placement.groups.printed_cores import printed_cores
from tests.placement.groups.test_groups import decided

GAIN, NONE = 20.0, 1e9
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
        ours = [Pinned(vm, int(vcpus[vm]), float(share[vm]), rate=float(rates[vm])) for vm in there]
        chosen = assign_cores(Topology(dict.fromkeys(range(cores), 0)), ours, GAIN)
        assert sorted(chosen) == there
        for vm, taken in chosen.items():
            assert len(taken) == vcpus[vm]
            assert vcpus[vm] > cores or len(set(taken)) == vcpus[vm]


def cores_of(rates: list[float], vcpus: list[int], cores: int, gain: float) -> list[list[int]]:
    """By VM: the cores that it gets on a node, and shares that follow its rate as far as it can."""
    part = cores * 100.0 / sum(rates)
    ours = [
        Pinned(vm, count, min(rate * part, count * 100.0), rate=rate)
        for vm, (rate, count) in enumerate(zip(rates, vcpus, strict=True))
    ]
    chosen = assign_cores(Topology(dict.fromkeys(range(cores), 0)), ours, gain)
    return [sorted(chosen[vm]) for vm in range(len(rates))]


def busiest(rates: list[float], vcpus: list[int], cores: int, chosen: list[list[int]]) -> float:
    """What the busiest core is asked for, in percent."""
    part, load = cores * 100.0 / sum(rates), np.zeros(cores)
    for rate, count, taken in zip(rates, vcpus, chosen, strict=True):
        np.add.at(load, taken, min(rate * part / count, 100.0))
    return float(load.max())


def test_the_papers_figure_5() -> None:
    """Two VMs of three virtual CPUs on four cores: the second begins at the core that is free."""
    assert cores_of([35.0, 20.0], [3, 3], 4, GAIN) == [[0, 1, 2], [0, 1, 3]]
    assert cores_of([30.0, 30.0], [3, 3], 4, GAIN) == [[0, 1, 2], [0, 1, 3]]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 100), st.integers(1, 6)), max_size=10), st.integers(1, 6))
def test_cores_are_the_printed_ones(vms: list[tuple[int, int]], cores: int) -> None:
    """By price, to the letter; and then never a busier core than the paper's."""
    rates, vcpus = [float(rate) for rate, _ in vms], [count for _, count in vms]
    if not vms:
        return
    printed = [sorted(taken) for taken in printed_cores(rates, vcpus, cores)]
    assert cores_of(rates, vcpus, cores, NONE) == printed
    ours = busiest(rates, vcpus, cores, cores_of(rates, vcpus, cores, GAIN))
    assert ours <= busiest(rates, vcpus, cores, printed) + 0.01


def test_where_prices_mislead_load_has_the_last_word() -> None:
    """One rate for four cores makes each look as dear as a core that a VM has to itself.

    The last VM goes to the cheapest core, where another one wants all of it; the four that one VM
    shares have room for it, and there it is in the end.
    """
    rates, vcpus = [40.0, 40.0, 30.0, 20.0, 20.0, 10.0], [4, 1, 1, 1, 1, 1]
    printed = printed_cores(rates, vcpus, 8)
    assert (printed[5], busiest(rates, vcpus, 8, printed)) == ([6], 150.0)
    ours = cores_of(rates, vcpus, 8, GAIN)
    assert (ours[5], busiest(rates, vcpus, 8, ours)) == ([0], 100.0)
