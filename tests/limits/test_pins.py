"""Virtual CPUs on cores: on different cores, in one cell, balanced, and rarely changed."""

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.limits import Pinned, Topology, assign_cores
from tests.lengths import EXAMPLES

GAIN = 20.0


def flat(cores: int, reserved: int = 0) -> Topology:
    """Return one cell of `cores` cores, the first of them reserved."""
    return Topology(dict.fromkeys(range(cores), 0), frozenset(range(reserved)))


def two_cells(cores: int) -> Topology:
    """Return two cells of `cores` cores each."""
    return Topology({core: core // cores for core in range(2 * cores)})


def pin_as_chosen(vm: Pinned, chosen: dict[int, tuple[int, ...]]) -> Pinned:
    """Return the VM pinned to its chosen cores."""
    return replace(vm, cores=tuple((core,) for core in chosen[vm.vm]))


def loads(vms: list[Pinned], chosen: dict[int, tuple[int, ...]]) -> Counter[int]:
    """Return the load of each used core, in hundredths of a unit."""
    load: Counter[int] = Counter()
    for vm in vms:
        for core in chosen[vm.vm]:
            load[core] += round(vm.share / vm.vcpus * 100)
    return load


def test_virtual_cpus_of_a_vm_get_different_cores() -> None:
    """This holds as long as the host has enough cores."""
    assert assign_cores(flat(4), [Pinned(1, 4, 400.0)], GAIN) == {1: (0, 1, 2, 3)}


def test_load_is_balanced_by_share() -> None:
    """Two large VMs get different cores, and the small VM the remaining one."""
    vms = [Pinned(1, 1, 90.0), Pinned(2, 1, 20.0), Pinned(3, 1, 80.0)]
    assert assign_cores(flat(3), vms, GAIN) == {1: (0,), 3: (1,), 2: (2,)}


def test_shares_on_four_cores_overload_none() -> None:
    """Shares of 254.5 and 145.5 with three virtual CPUs each fit on four cores."""
    vms = [Pinned(1, 3, 254.5), Pinned(2, 3, 145.5)]
    chosen = assign_cores(flat(4), vms, GAIN)
    assert all(len(set(cores)) == 3 for cores in chosen.values())
    assert max(loads(vms, chosen).values()) <= 13334


def test_reserved_cores_are_left_to_emulators() -> None:
    """No virtual CPU is pinned to them, however loaded the others are."""
    chosen = assign_cores(flat(4, reserved=2), [Pinned(vm, 2, 200.0) for vm in range(5)], GAIN)
    assert set().union(*chosen.values()) == {2, 3}


def test_a_vm_stays_inside_one_cell() -> None:
    """If a cell is large enough, two VMs of two virtual CPUs get different cells."""
    chosen = assign_cores(two_cells(2), [Pinned(1, 2, 200.0), Pinned(2, 2, 200.0)], GAIN)
    assert chosen == {1: (0, 1), 2: (2, 3)}


def test_a_vm_too_large_for_a_cell_spreads() -> None:
    """It gets the least loaded cores of the whole host."""
    chosen = assign_cores(two_cells(2), [Pinned(1, 3, 300.0), Pinned(2, 1, 50.0)], GAIN)
    assert len(set(chosen[1])) == 3
    assert set(chosen[1]) | set(chosen[2]) == {0, 1, 2, 3}


def test_pins_across_cells_are_replaced() -> None:
    """A VM that fits into a cell and is pinned across two gets one cell."""
    vm = Pinned(1, 2, 200.0, cores=((1,), (2,)))
    assert assign_cores(two_cells(2), [vm], GAIN)[1] in {(0, 1), (2, 3)}


def test_more_virtual_cpus_than_cores_share_them() -> None:
    """Each virtual CPU takes the core that is least loaded by then."""
    chosen = assign_cores(flat(2), [Pinned(1, 1, 60.0), Pinned(2, 5, 100.0)], GAIN)
    assert chosen[1] == (1,) or chosen[1] == (0,)
    assert Counter(chosen[2])[chosen[1][0]] < 3


def test_a_vm_with_far_too_many_vcpus_is_not_pinned() -> None:
    """Its number of virtual CPUs is the tenant's choice, and must not cost the period its time."""
    chosen = assign_cores(flat(4), [Pinned(1, 2**31, 100.0), Pinned(2, 32, 100.0)], GAIN)
    assert chosen.keys() == {2}
    assert Counter(chosen[2]) == dict.fromkeys(range(4), 8)


def test_idle_vms_spread_too() -> None:
    """VMs with shares of zero get different cores."""
    chosen = assign_cores(flat(4), [Pinned(vm, 1, 0.0) for vm in range(4)], GAIN)
    assert sorted(chosen.values()) == [(0,), (1,), (2,), (3,)]


def test_fixed_vms_keep_their_cores_and_count_as_load() -> None:
    """OpenNebula's own pins load their cores, and a virtual CPU with several loads all of them."""
    fixed = Pinned(1, 2, 200.0, cores=((0,), (0, 1)), fixed=True)
    assert assign_cores(flat(3), [fixed, Pinned(2, 1, 50.0)], GAIN) == {2: (2,)}


def test_a_change_with_too_little_gain_is_not_made() -> None:
    """An imbalance below the least gain is accepted."""
    vms = [Pinned(1, 1, 30.0, ((0,),)), Pinned(2, 1, 15.0, ((0,),))]
    assert assign_cores(flat(2), vms, GAIN) == {1: (0,), 2: (0,)}


def test_a_change_that_gains_exactly_the_least_is_made() -> None:
    """A core at 2 x GAIN gives half of its load to an empty core."""
    vms = [Pinned(vm, 1, float(GAIN), ((0,),)) for vm in (1, 2)]
    assert sorted(assign_cores(flat(2), vms, GAIN).values()) == [(0,), (1,)]


def test_a_needed_change_moves_few_vms() -> None:
    """One of three VMs leaves a busy core, and the others stay."""
    vms = [Pinned(vm, 1, 60.0, ((0,),)) for vm in (1, 2)] + [Pinned(3, 1, 10.0, ((1,),))]
    assert assign_cores(flat(2), vms, GAIN) == {1: (1,), 2: (0,), 3: (1,)}


def test_a_whole_vm_changes_its_cell() -> None:
    """A VM in a full cell moves to the empty cell."""
    vms = [Pinned(vm, 2, 200.0, ((0,), (1,))) for vm in (1, 2)]
    assert assign_cores(two_cells(2), vms, GAIN) == {1: (2, 3), 2: (0, 1)}


def test_a_share_larger_than_a_core_counts_as_one_core() -> None:
    """One virtual CPU cannot use more than a core, whatever its share."""
    vms = [Pinned(1, 1, 800.0), Pinned(2, 2, 200.0), Pinned(3, 1, 100.0)]
    chosen = assign_cores(flat(3), vms, GAIN)
    assert len(set(chosen[2])) == 2


def test_invalid_pins_are_replaced() -> None:
    """Too few or many pins, shared cores, several cores for one, and missing cores are replaced."""
    for cores in (((0,),), ((0,), (1,), (2,)), ((1,), (1,)), ((0, 1), (2,)), ((0,), (9,))):
        chosen = assign_cores(flat(4), [Pinned(1, 2, 100.0, cores)], GAIN)
        assert chosen == {1: (0, 1)}


def test_nothing_to_pin_gives_no_pins() -> None:
    """Without VMs, without cores or with only reserved cores the result is empty."""
    assert assign_cores(flat(4), [], GAIN) == {}
    assert assign_cores(flat(0), [Pinned(1, 1, 10.0)], GAIN) == {}
    assert assign_cores(flat(2, reserved=2), [Pinned(1, 1, 10.0)], GAIN) == {}


HOSTS = st.builds(
    lambda cells, cores, reserved: Topology(
        {core: core // cores for core in range(cells * cores)}, frozenset(range(reserved))
    ),
    st.integers(1, 3),
    st.integers(2, 6),
    st.integers(0, 1),
)
VMS = st.lists(
    st.builds(
        Pinned,
        vm=st.integers(0, 10**6),
        vcpus=st.integers(1, 8),
        share=st.floats(0, 1600),
        cores=st.lists(
            st.lists(st.integers(0, 17), min_size=1, max_size=2).map(tuple), max_size=8
        ).map(tuple),
        fixed=st.sampled_from([False, False, False, True]),
    ),
    max_size=12,
    unique_by=lambda vm: vm.vm,
)


@settings(max_examples=EXAMPLES)
@given(HOSTS, VMS)
def test_rules_hold_for_any_present_pins(topology: Topology, vms: list[Pinned]) -> None:
    """Cores are usable and different while enough exist, and in one cell if one is large enough."""
    chosen = assign_cores(topology, vms, GAIN)
    cells = topology.cells()
    for vm in vms:
        if vm.fixed:
            assert vm.vm not in chosen
            continue
        cores = chosen[vm.vm]
        assert len(cores) == vm.vcpus
        assert set(cores) <= set(topology.cell) - topology.reserved
        if vm.vcpus <= topology.usable:
            assert len(set(cores)) == vm.vcpus
        if any(len(cell) >= vm.vcpus for cell in cells.values()):
            assert len({topology.cell[core] for core in cores}) == 1


@settings(max_examples=EXAMPLES)
@given(HOSTS, VMS)
def test_chosen_pins_stay(topology: Topology, vms: list[Pinned]) -> None:
    """A second decision changes nothing, in any order of the VMs."""
    chosen = assign_cores(topology, vms, GAIN)
    again = [vm if vm.fixed else pin_as_chosen(vm, chosen) for vm in reversed(vms)]
    assert assign_cores(topology, again, GAIN) == chosen


@settings(max_examples=EXAMPLES)
@given(st.lists(st.floats(1, 100), min_size=1, max_size=20), st.integers(2, 8))
def test_no_core_can_be_relieved_any_further(shares: list[float], cores: int) -> None:
    """With one virtual CPU each, no single change would relieve a core by the least gain."""
    vms = [Pinned(vm, 1, share, ((0,),)) for vm, share in enumerate(shares)]
    chosen = assign_cores(flat(cores), vms, GAIN)
    load = Counter(dict.fromkeys(range(cores), 0))
    load.update(loads(vms, chosen))
    lightest = min(load.values())
    for vm in vms:
        part = round(vm.share * 100)
        peak = max(lightest + part, load[chosen[vm.vm][0]] - part)
        assert load[chosen[vm.vm][0]] - peak <= GAIN * 100 + len(vms)
