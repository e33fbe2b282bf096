"""The strategy `groups`: the worked example, complete placement, the fewest migrations."""

from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Decision, Deploy, HostState, Migrate, Snapshot
from merkatd.placement.groups import GroupSettings, groups
from merkatd.placement.groups.group_phases import assign_to_hosts, group_by_price, vms_staying
from tests.clouds import cloud, hosts_table, placed, vms_table
from tests.lengths import EXAMPLES, shorten
from tests.placement.groups.printed import assign_by_exchanges

RNG = np.random.default_rng(0)
SETTINGS = GroupSettings()


def requests(
    rates: list[float], hosts: int, host: list[int] | None = None, cores: int = 4, vcpus: int = 3
) -> Snapshot:
    """Return a cloud of equal hosts with one VM per rate: on its `host` if given, else pending."""
    count = len(rates)
    bid = np.array([[rate, 0.0] for rate in rates]).reshape(count, 2)
    return cloud(
        hosts_table(np.tile([cores * 100.0, 65536.0], (hosts, 1))),
        vms_table(
            np.array([-1] * count if host is None else host),
            bid,
            np.tile([vcpus * 100.0, 1024.0], (count, 1)),
            floor=np.tile([0.0, 1024.0], (count, 1)),
        ),
    )


EXAMPLE = [35.0, 35.0, 30.0, 30.0, 20.0, 20.0]


def decided(snapshot: Snapshot) -> Decision:
    """Return the decision of `groups` without any memory of earlier periods."""
    return groups(snapshot, SETTINGS, {}, RNG)


def test_the_papers_worked_example_gives_the_papers_shares() -> None:
    """Three nodes of four cores and three requests of two VMs each get the paper's shares."""
    group = group_by_price(
        np.array(EXAMPLE),
        np.zeros((6, 2)),
        np.tile([400.0, 1.0], (3, 1)),
        np.full(6, -1),
        lambda _vm, _group: None,
    )
    assert group.tolist() == [0, 1, 2, 2, 0, 1]
    prices = np.bincount(group, EXAMPLE)
    assert prices.tolist() == [55.0, 55.0, 60.0]
    decision = decided(requests(EXAMPLE, 3))
    expected = [254.5454545, 254.5454545, 200.0, 200.0, 145.4545454, 145.4545454]
    assert decision.allocations[:, 0] == pytest.approx(expected)


rates = st.lists(st.floats(1.0, 100.0), min_size=1, max_size=12)


@settings(max_examples=EXAMPLES)
@given(rates, st.integers(1, 5))
def test_every_pending_vm_is_deployed_once(given_rates: list[float], hosts: int) -> None:
    """Each pending VM is deployed once, and each host's CPU is divided by rates."""
    snapshot = requests(given_rates, hosts)
    decision = decided(snapshot)
    assert sorted(step.vm for step in decision.plan.of(Deploy)) == snapshot.vms.id.tolist()
    place = placed(snapshot, decision)
    for host in range(hosts):
        there = place == host
        total = sum(np.array(given_rates)[there])
        shares = np.array(given_rates)[there] / total * 400.0 if total else np.zeros(0)
        if (shares <= 300.0).all():
            assert decision.allocations[there, 0] == pytest.approx(shares)


@settings(max_examples=EXAMPLES)
@given(rates, st.integers(1, 4))
def test_groups_are_as_even_as_rates_allow(given_rates: list[float], hosts: int) -> None:
    """The most expensive group minus its cheapest VM costs no more than the cheapest group."""
    snapshot = requests(given_rates, hosts)
    place = placed(snapshot, decided(snapshot))
    price = np.bincount(place, given_rates, hosts)
    for host in range(hosts):
        there = np.array(given_rates)[place == host]
        if len(there):
            assert price[host] - there.min() <= price.min() + 1e-9


def overlaps() -> st.SearchStrategy[tuple[list[int], list[int], int]]:
    """Draw the present host and the group of each VM."""
    return st.integers(1, 5).flatmap(
        lambda n: st.tuples(
            st.lists(st.integers(-1, n - 1), min_size=1, max_size=15),
            st.just([]),
            st.just(n),
        ).flatmap(
            lambda parts: st.tuples(
                st.just(parts[0]),
                st.lists(
                    st.integers(0, parts[2] - 1), min_size=len(parts[0]), max_size=len(parts[0])
                ),
                st.just(parts[2]),
            )
        )
    )


@settings(max_examples=EXAMPLES)
@given(overlaps())
def test_no_assignment_has_fewer_migrations(example: tuple[list[int], list[int], int]) -> None:
    """No permutation needs fewer migrations, nor does the paper's heuristic."""
    place, group, hosts = np.array(example[0]), np.array(example[1]), example[2]
    rows = np.arange(hosts)
    kept = vms_staying(place, group, rows, rows)
    host_of = assign_to_hosts(place, group, np.zeros(hosts, dtype=np.int64))
    assert sorted(host_of.tolist()) == rows.tolist()
    ours = int(kept[host_of, rows].sum())
    best = max(
        int(sum(kept[host, column] for column, host in enumerate(order)))
        for order in permutations(range(hosts))
    )
    assert ours == best
    there = np.bincount(place[place >= 0], minlength=hosts)
    chosen = assign_by_exchanges(there[:, np.newaxis] - kept)
    assert int(kept[rows, chosen].sum()) <= ours


@st.composite
def kinds_of_hosts(draw: st.DrawFn) -> tuple[list[int], list[int], list[int]]:
    """Draw the present host and the group of each VM, and the kind of each host.

    A group may only go to a host of the same kind.
    """
    kind = draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
    count = draw(st.integers(1, 15))
    hosts = st.integers(-1, len(kind) - 1)
    place = draw(st.lists(hosts, min_size=count, max_size=count))
    group = draw(st.lists(hosts, min_size=count, max_size=count))
    return place, group, kind


@settings(max_examples=EXAMPLES)
@given(kinds_of_hosts())
def test_a_group_gets_a_host_of_its_kind(example: tuple[list[int], list[int], list[int]]) -> None:
    """Each host gets one group of its kind, and no exchange would keep more VMs in place."""
    place, group, kind = (np.array(values) for values in example)
    host_of = assign_to_hosts(place, group, kind)
    assert sorted(host_of.tolist()) == list(range(len(kind)))
    assert (kind[host_of] == kind).all()

    def stay(of: np.ndarray) -> int:
        return int(((place >= 0) & (group >= 0) & (of[group] == place)).sum())

    for first, second in permutations(range(len(kind)), 2):
        if kind[first] == kind[second]:
            other = host_of.copy()
            other[[first, second]] = host_of[[second, first]]
            assert stay(other) <= stay(host_of)


def test_reserved_capacity_does_not_cause_migrations() -> None:
    """Capacity that VMs in migration reserve for a while leaves the groups unchanged."""
    snapshot = requests(EXAMPLE, 3)
    first = decided(snapshot)
    running = requests(EXAMPLE, 3, placed(snapshot, first).tolist())
    kept = np.zeros((3, 2))
    kept[1] = [100.0, 1024.0]
    hosts = replace(running.hosts, capacity=running.hosts.capacity - kept, reserved=kept)
    second = groups(replace(running, hosts=hosts), SETTINGS, first.memory, RNG)
    assert len(second.plan) == 0
    assert second.memory == first.memory


@settings(deadline=None, max_examples=shorten(100, 25))
@given(
    st.lists(st.floats(1.0, 100.0), min_size=4, max_size=12),
    st.lists(st.floats(0.01, 100.0), min_size=2, max_size=12),
    st.integers(2, 4),
)
def test_repeated_edits_of_a_rate_rarely_move_other_vms(
    given_rates: list[float], edits: list[float], hosts: int
) -> None:
    """No VM moves more than three times within ten minutes, and twice only after a regrouping."""
    snapshot = requests(given_rates, hosts)
    decision = decided(snapshot)
    place = placed(snapshot, decision)
    moved_at_s: dict[int, list[int]] = {}
    for period, rate in enumerate(edits):
        edited = requests([rate, *given_rates[1:]], hosts, place.tolist())
        last = [max(moved_at_s.get(vm, [-1000]), default=-1000) for vm in range(len(given_rates))]
        vms = replace(edited.vms, moved_at_s=np.array(last) * 60.0)
        edited = replace(edited, vms=vms, now_s=period * 60.0)
        decision = groups(edited, SETTINGS, decision.memory, RNG)
        place = placed(edited, decision)
        for step in decision.plan.of(Migrate):
            moved_at_s.setdefault(step.vm, []).append(period)
    for times in moved_at_s.values():
        assert sum(later - earlier < 10 for earlier, later in pairwise(times)) <= 3


def test_nothing_moves_while_demand_is_unchanged() -> None:
    """Without new demand no VM moves, even if another grouping would be as good."""
    snapshot = requests(EXAMPLE, 3)
    first = decided(snapshot)
    running = requests(EXAMPLE, 3, placed(snapshot, first).tolist())
    second = groups(running, SETTINGS, first.memory, RNG)
    assert len(second.plan) == 0
    assert second.memory == first.memory


def test_an_edited_rate_regroups() -> None:
    """The VM beside the VM that now pays most moves to another host; no other VM moves."""
    snapshot = requests(EXAMPLE, 3)
    first = decided(snapshot)
    edited = requests([90.0, 35.0, 30.0, 30.0, 20.0, 20.0], 3, placed(snapshot, first).tolist())
    second = groups(edited, SETTINGS, first.memory, RNG)
    price = np.bincount(placed(edited, second), edited.vms.bid[:, 0])
    assert sorted(price.tolist()) == [60.0, 75.0, 90.0]
    assert len(second.plan.of(Migrate)) == 1


def test_a_drained_host_is_emptied_and_a_new_host_is_used() -> None:
    """All VMs leave a drained host, and a host that was added gets VMs."""
    snapshot = requests(EXAMPLE, 3, [0, 1, 2, 2, 0, 1])
    state = np.array([int(HostState.ON), int(HostState.ON), int(HostState.DRAINED)])
    drained = replace(snapshot, hosts=replace(snapshot.hosts, state=state))
    assert set(placed(drained, decided(drained)).tolist()) == {0, 1}
    more = requests(EXAMPLE, 4, [0, 1, 2, 2, 0, 1])
    assert set(placed(more, decided(more)).tolist()) == {0, 1, 2, 3}


def test_twice_the_cores_get_twice_the_rates() -> None:
    """A host with twice the cores gets VMs with twice the total rate."""
    snapshot = cloud(
        hosts_table(np.array([[400.0, 65536.0], [800.0, 65536.0]])),
        vms_table(np.full(30, -1), np.tile([10.0, 0.0], (30, 1)), np.tile([400.0, 512.0], (30, 1))),
    )
    counts = np.bincount(placed(snapshot, decided(snapshot)), minlength=2)
    assert counts.tolist() == [10, 20]


def test_a_vm_whose_memory_does_not_fit_waits_with_a_reason() -> None:
    """A VM that fits on no host waits with the reason; the other VMs are deployed."""
    floor = np.array([[0.0, 60000.0], [0.0, 60000.0], [0.0, 60000.0]])
    snapshot = cloud(
        hosts_table(np.tile([400.0, 65536.0], (2, 1))),
        vms_table(
            np.full(3, -1),
            np.tile([10.0, 0.0], (3, 1)),
            floor + np.array([100.0, 0.0]),
            floor=floor,
        ),
    )
    decision = decided(snapshot)
    assert len(decision.plan.of(Deploy)) == 2
    assert list(decision.reasons) == [int(snapshot.vms.id[2])]
    assert "60,000 MiB of memory" in decision.reasons[int(snapshot.vms.id[2])]


def test_an_unmovable_vm_stays_and_counts() -> None:
    """A VM that may not move stays, and its rate counts for its host's group."""
    snapshot = requests(EXAMPLE, 3, [0, 0, 0, 0, 0, 0])
    held = replace(snapshot, vms=replace(snapshot.vms, movable=np.array([False] * 2 + [True] * 4)))
    place = placed(held, decided(held))
    assert place[:2].tolist() == [0, 0]
    assert 0 not in place[2:]
