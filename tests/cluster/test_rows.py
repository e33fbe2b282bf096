"""Rows of ids: present, missing before, between and after the known ids, without ids; members."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.cluster.columns import NO_HOST, is_one_of, row_of, rows_of, values_of

IDS = np.array([2, 5, 9])
NO_IDS = np.zeros(0, dtype=np.int64)


@pytest.mark.parametrize(
    ("wanted", "row"), [(2, 0), (5, 1), (9, 2), (0, None), (6, None), (10, None)]
)
def test_row_of_finds_known_ids_only(wanted: int, row: int | None) -> None:
    """A missing id has no row, also between known ids."""
    assert row_of(IDS, wanted) == row
    assert row_of(NO_IDS, wanted) is None


def test_rows_of_keeps_the_given_order() -> None:
    """Rows come in the order of the given ids, with `NO_HOST` for missing ids."""
    wanted = np.array([9, 0, 2, 6, 10])
    assert rows_of(IDS, wanted).tolist() == [2, NO_HOST, 0, NO_HOST, NO_HOST]
    assert rows_of(NO_IDS, wanted).tolist() == [NO_HOST] * 5
    assert rows_of(IDS, NO_IDS).tolist() == []


def test_values_of_uses_the_default_for_missing_ids() -> None:
    """Missing ids get the default, also if all ids are missing."""
    values = np.array([20.0, 50.0, 90.0])
    assert values_of(IDS, values, np.array([9, 6, 2]), -0.5).tolist() == [90.0, -0.5, 20.0]
    assert values_of(NO_IDS, values[:0], np.array([9]), -0.5).tolist() == [-0.5]


@given(st.lists(st.integers(-3, 20)), st.frozensets(st.integers(-3, 20)))
def test_is_one_of_finds_members_however_many(values: list[int], members: frozenset[int]) -> None:
    """Few members are compared one by one, many at once: the answer is the same."""
    marked = is_one_of(np.array(values, dtype=np.int64), members)
    assert marked.tolist() == [value in members for value in values]
    as_array = is_one_of(np.array(values, dtype=np.int64), np.array(sorted(members), dtype=int))
    assert as_array.tolist() == marked.tolist()
