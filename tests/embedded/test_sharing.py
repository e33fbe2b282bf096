"""Division of a host's cores among guests."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.embedded.machines.core_division import CoreClaim, divide, divide_pinned

CLAIMS = st.lists(
    st.tuples(st.integers(2, 8192), st.floats(0, 16, allow_subnormal=False)),
    min_size=1,
    max_size=12,
)
ANY = frozenset[int]()


@given(CLAIMS, st.floats(0.5, 64))
def test_capacity_is_used_and_never_exceeded(
    claims: list[tuple[int, float]], capacity: float
) -> None:
    """No share exceeds its cap, and their sum is the capacity or the sum of caps."""
    weights, caps = [float(weight) for weight, _ in claims], [cap for _, cap in claims]
    shares = divide(weights, caps, capacity)
    assert all(0 <= share <= cap + 1e-9 for share, cap in zip(shares, caps, strict=True))
    assert math.fsum(shares) == pytest.approx(min(capacity, math.fsum(caps)), abs=1e-9)


@given(CLAIMS, st.floats(0.5, 64))
def test_shares_below_their_caps_have_one_level(
    claims: list[tuple[int, float]], capacity: float
) -> None:
    """Shares by weight are equal below the caps, and at least as large as all others."""
    weights, caps = [float(weight) for weight, _ in claims], [cap for _, cap in claims]
    shares = divide(weights, caps, capacity)
    rows = list(zip(shares, weights, caps, strict=True))
    levels = [share / weight for share, weight, cap in rows if share < cap - 1e-9]
    if levels:
        assert max(levels) == pytest.approx(min(levels), rel=1e-6)
        assert all(share / weight <= levels[0] * (1 + 1e-6) for share, weight, _ in rows)


def test_shares_follow_the_kernels_ratio() -> None:
    """Shares of 2048 and 1024 divide a core two to one."""
    assert divide([2048, 1024], [1, 1], 1) == pytest.approx([2 / 3, 1 / 3])


def test_unused_shares_go_to_the_others() -> None:
    """A small demand is met, and the remaining capacity is divided by weight."""
    assert divide([1, 1, 2], [0.2, 9, 9], 3.2) == pytest.approx([0.2, 1, 2])


@given(CLAIMS, st.integers(1, 16))
def test_without_pins_both_algorithms_agree(claims: list[tuple[int, float]], cores: int) -> None:
    """The general division equals the simple one if all cores are allowed."""
    simple = divide([float(weight) for weight, _ in claims], [cap for _, cap in claims], cores)
    general = divide_pinned(
        [CoreClaim(float(weight), cap, math.inf, (ANY,)) for weight, cap in claims], cores
    )
    assert general == pytest.approx(simple, abs=1e-6)


PINNED = st.lists(
    st.tuples(
        st.integers(2, 4096),
        st.floats(0.01, 4),
        st.lists(st.frozensets(st.integers(0, 3), max_size=3), min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=5,
)


@given(PINNED)
def test_no_core_is_used_twice(
    claims: list[tuple[int, float, list[frozenset[int]]]],
) -> None:
    """Pinned VMs use at most their cores, and no VM exceeds its cap."""
    shares = divide_pinned(
        [CoreClaim(float(weight), cap, 1.0, tuple(pins)) for weight, cap, pins in claims], 4
    )
    assert math.fsum(shares) <= 4 + 1e-9
    for share, (_, cap, pins) in zip(shares, claims, strict=True):
        assert share <= min(cap, len(pins)) + 1e-9
    for core in range(4):
        bound = [s for s, c in zip(shares, claims, strict=True) if all(p == {core} for p in c[2])]
        assert math.fsum(bound) <= 1 + 1e-9


def test_two_vms_pinned_to_one_core_share_it() -> None:
    """The third VM has the other core alone."""
    first, other = frozenset({0}), frozenset({1})
    claims = [
        CoreClaim(1, 1, 1, (first,)),
        CoreClaim(3, 1, 1, (first,)),
        CoreClaim(1, 1, 1, (other,)),
    ]
    assert divide_pinned(claims, 2) == pytest.approx([0.25, 0.75, 1.0])


def test_overlapping_pins_are_limited_together() -> None:
    """Three virtual CPUs pinned to {0,1}, {0,1}, {0} use at most two cores in all."""
    both, single = frozenset({0, 1}), frozenset({0})
    claims = [
        CoreClaim(1, 1, 1, (both,)),
        CoreClaim(1, 1, 1, (both,)),
        CoreClaim(1, 1, 1, (single,)),
    ]
    assert divide_pinned(claims, 4) == pytest.approx([2 / 3] * 3)


def test_a_cap_on_the_whole_vm_frees_its_cores() -> None:
    """A VM with two pinned CPUs and half a core in all leaves the rest to its neighbours."""
    claims = [
        CoreClaim(1024, 0.5, 1, (frozenset({0}), frozenset({1}))),
        CoreClaim(1024, 1, 1, (frozenset({0}),)),
        CoreClaim(1024, 1, 1, (frozenset({1}),)),
    ]
    assert divide_pinned(claims, 2) == pytest.approx([0.5, 0.75, 0.75])
