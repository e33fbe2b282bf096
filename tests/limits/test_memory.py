"""Balloons of one VM: never below its need, in bounded steps, and at the target in the end."""

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Balloon, Ints
from merkatd.limits import UNSET, LimitsSettings, MemorySettings
from merkatd.limits.memory_targets import GuestMemory, holdings, least, steps, targets
from tests.lengths import EXAMPLES
from tests.limits.hosts import confirmed, limits_of, measured, one_host
from tests.limits.hosts import make_decision as decided

DEFAULT = MemorySettings()
KEEPS = np.array([1000.0, np.nan])
"""MiB that the first of two guests keeps of the memory it uses."""


def guests(rows: list[dict[str, float]]) -> GuestMemory:
    """Return guests of 8,192 MiB without use and targets, except for the given values."""
    usual = {"size": 8192.0, "floor": 0.0, "share": 0.0, "used": 0.0, "held": 8192.0}
    columns = {name: np.array([{**usual, **row}[name] for row in rows]) for name in usual}
    targets_mib = np.array([row.get("balloon", UNSET) for row in rows], dtype=np.int64)
    return GuestMemory(**columns, balloon=targets_mib)


def target_of(settings: MemorySettings = DEFAULT, room_mib: int = 10**6, **row: float) -> int:
    """Return the final balloon target of one guest alone on a host."""
    guest = guests([row])
    need = least(guest, settings)
    return int(targets(guest, need, np.zeros(1, dtype=np.int64), np.array([room_mib]))[0])


def test_the_target_is_the_share() -> None:
    """A guest that needs less than its share gets its share, in whole MiB."""
    assert target_of(share=3000.7, floor=1024.0, used=500.0) == 3000


def test_the_target_is_never_below_the_floor() -> None:
    """This holds however small the share and the room are."""
    assert target_of(share=10.0, floor=1024.0) == 1024
    assert target_of(share=10.0, floor=1024.0, room_mib=0) == 1024


def test_the_target_is_never_below_use_plus_margin() -> None:
    """The margin is the larger of 128 MiB and 10 % of the use."""
    assert target_of(share=10.0, used=512.0) == 640
    assert target_of(share=10.0, used=5000.0) == 5500


def test_using_more_memory_gains_nothing() -> None:
    """Use protects held memory; growing needs a share or a floor."""
    assert target_of(share=1000.0, used=2000.0, held=2048.0) == 2048


def test_the_target_is_never_above_the_size() -> None:
    """Use plus margin is limited by the size too."""
    assert target_of(share=1e12) == 8192
    assert target_of(share=10.0, used=8000.0) == 8192


def test_unmeasured_guests_are_not_shrunk() -> None:
    """A guest that reports no use keeps its memory, unless the administrator allows shrinking."""
    assert target_of(share=1024.0, used=np.nan, held=4096.0) == 4096
    bold = MemorySettings(shrink_unmeasured=True)
    assert target_of(bold, share=1024.0, used=np.nan, held=4096.0) == 1024


def test_holdings_count_what_a_guest_may_take() -> None:
    """It is the larger of observed memory and target, or the size if both are unknown."""
    rows = [
        {"held": 1000.0, "balloon": 2000},
        {"held": 3000.0, "balloon": 2000},
        {"held": np.nan, "balloon": 2000},
        {"held": np.nan},
    ]
    assert holdings(guests(rows)).tolist() == [2000, 3000, 2000, 8192]


def test_a_shortage_is_shared_equally() -> None:
    """Everything above the least amounts is scaled down until it fits."""
    two = guests([{"share": 4000.0, "used": 0.0, "floor": 1000.0}, {"share": 0.0, "floor": 2000.0}])
    need = np.array([1000, 2000])
    assert targets(two, need, np.zeros(2, dtype=np.int64), np.array([4000])).tolist() == [
        2000,
        2000,
    ]


def next_step(target: int, settings: MemorySettings = DEFAULT, **row: float) -> int:
    """Return the next balloon step of one guest towards this target."""
    guest = guests([row])
    need = np.minimum(least(guest, settings), target)
    return int(steps(guest, np.array([target]), need, settings)[0])


def test_the_balloon_moves_a_quarter_of_its_size_a_period() -> None:
    """It moves from 160 to 96 MiB and back in two steps each."""
    small = MemorySettings(margin_mib=16, least_step_mib=8)
    assert next_step(96, small, size=160.0, held=160.0) == 120
    assert next_step(96, small, size=160.0, held=120.0, balloon=120) == 96
    assert next_step(160, small, size=160.0, held=96.0, balloon=96) == 136


def test_small_differences_are_skipped() -> None:
    """A step below 64 MiB is sent only to keep a floor."""
    assert next_step(4033, held=4096.0) == 4096
    assert next_step(4032, held=4096.0) == 4032
    assert next_step(4097, held=4096.0, floor=4097.0) == 4097


def test_a_guest_below_its_need_is_raised_at_once() -> None:
    """A guest that needs more than it holds does not wait for bounded steps."""
    assert next_step(8000, held=1000.0, floor=7000.0) == 7000


def test_a_slow_guest_is_not_grown_while_it_shrinks() -> None:
    """While it still follows an earlier target, that target stays its limit."""
    assert next_step(1000, held=8000.0, balloon=2000) == 2000
    assert next_step(2500, held=8000.0, balloon=2000) == 2500


ROW = st.fixed_dictionaries(
    {
        "size": st.integers(1, 10**6).map(float),
        "floor": st.floats(0, 1e6),
        "share": st.floats(0, 1e12),
        "used": st.one_of(st.just(float("nan")), st.floats(0, 1e6)),
        "held": st.floats(0, 1e6),
        "balloon": st.one_of(st.just(UNSET), st.integers(0, 10**6)),
    }
)


def some_guests(rows: list[dict[str, float]]) -> GuestMemory:
    """Return guests whose floor, holdings and target are within their size."""
    for row in rows:
        row["floor"] = min(row["floor"], row["size"])
        row["held"] = min(row["held"], row["size"])
        row["balloon"] = min(row["balloon"], row["size"])
    return guests(rows)


@settings(max_examples=EXAMPLES)
@given(st.lists(ROW, min_size=1, max_size=12), st.integers(0, 10**7))
def test_targets_respect_floors_and_room(rows: list[dict[str, float]], room_mib: int) -> None:
    """Targets are between least and size, and together within the room or all at their least."""
    many = some_guests(rows)
    need = least(many, DEFAULT)
    target = targets(many, need, np.zeros(len(rows), dtype=np.int64), np.array([room_mib]))
    assert (target >= many.floor).all()
    assert (target <= many.size).all()
    assert (target >= need).all()
    if need.sum() <= room_mib:
        assert target.sum() <= room_mib
    else:
        assert (target == need).all()


@settings(max_examples=EXAMPLES)
@given(st.lists(ROW, min_size=1, max_size=8))
def test_steps_are_bounded_and_approach_the_target(rows: list[dict[str, float]]) -> None:
    """A step never passes the target and exceeds the bound only to reach the least."""
    many = some_guests(rows)
    need = least(many, DEFAULT)
    target = targets(many, need, np.zeros(len(rows), dtype=np.int64), np.array([10**9]))
    holds = holdings(many)
    targets_mib = steps(many, target, need, DEFAULT)
    low, high = np.minimum(holds, target), np.maximum(holds, target)
    assert ((targets_mib >= low) & (targets_mib <= high)).all()
    most = np.maximum(np.minimum(4096, many.size * 0.25), 1)
    following = (many.balloon >= 0) & (many.balloon < holds)
    assert (holds - targets_mib <= most)[~following].all()
    assert (targets_mib - holds <= np.maximum(most, need - holds)).all()


@settings(max_examples=EXAMPLES)
@given(
    st.integers(64, 20_000),
    st.floats(0.05, 1.0),
    st.floats(0.0, 1.0),
    st.integers(16, 4096),
    st.floats(0.05, 1.0),
)
def test_the_target_is_reached_in_the_stated_number_of_periods(
    size: int, held: float, share: float, most_mib: int, most_part: float
) -> None:
    """Under constant conditions it takes the gap over the largest step, rounded up."""
    memory = MemorySettings(
        most_step_mib=most_mib, most_step_part=most_part, margin_mib=0, least_step_mib=8
    )
    settings = LimitsSettings(memory=memory)
    snapshot = one_host(
        [100.0, float(size)],
        bid=[[1.0, 1.0]],
        cap=np.array([[100.0, float(size)]]),
        held=[[np.nan, np.floor(held * size)]],
    )
    target = int(share * size)
    decision = decided(snapshot, np.array([[100.0, share * size]]))
    in_force = measured(snapshot, [0.0])
    step = max(int(min(most_mib, most_part * size)), 1)
    periods = -(-abs(target - int(held * size)) // step)
    for _ in range(periods):
        limits = limits_of(snapshot, decision, in_force, settings=settings)
        snapshot, in_force = confirmed(snapshot, in_force, limits.plan.steps)
    assert abs(float(snapshot.vms.held[0, 1]) - target) < 8
    after = limits_of(snapshot, decision, in_force, settings=settings)
    assert not after.plan.of(Balloon)


def test_no_vms_give_no_targets() -> None:
    """Empty arrays give empty arrays."""
    none = guests([])
    empty: Ints = np.zeros(0, dtype=np.int64)
    assert least(none, DEFAULT).tolist() == []
    assert targets(none, empty, empty, np.zeros(0, dtype=np.int64)).tolist() == []
    assert steps(none, empty, empty, DEFAULT).tolist() == []


def test_a_guest_gives_back_unpaid_memory_that_it_uses() -> None:
    """It keeps what it pays for and returns the rest at once; others keep what they use."""
    unpaid = dataclasses.replace(guests([{"used": 5000.0}, {"used": 5000.0}]), keeps=KEEPS)
    need = least(unpaid, DEFAULT)
    assert need.tolist() == [1000, 5500]
    room = np.array([10**6])
    target = targets(unpaid, need, np.zeros(2, dtype=np.int64), room)
    assert steps(unpaid, target, need, DEFAULT).tolist() == [1000, 8192 - 2048]


def test_memory_held_beyond_the_share_is_reported_for_the_charge() -> None:
    """The report counts what the balloon cannot free now, or all beyond an ignored target."""
    size, held = np.array([[100.0, 2048.0]] * 2), np.array([[np.nan, 2048.0]] * 2)
    snapshot = one_host([800.0, 4096.0], bid=[[1.0, 1.0]] * 2, cap=size, held=held)
    decision = decided(snapshot, np.array([[100.0, 512.0], [100.0, 512.0]]))
    slow = measured(snapshot, [1000.0, 100.0])
    assert limits_of(snapshot, decision, slow).holding_mib == {0: 1536, 1: 1536}
    slow = measured(snapshot, [1000.0, 100.0], memory_mib=np.array([UNSET, 1024]))
    assert limits_of(snapshot, decision, slow).holding_mib == {0: 1536, 1: 2048}
