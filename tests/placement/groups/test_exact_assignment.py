"""The exact assignment equals scipy's, also among equally good assignments."""

import numpy as np
import pytest

from merkatd.cluster import Floats
from merkatd.placement.groups.exact_assignment import best_columns


def random_values(seed: int) -> Floats:
    """Return a matrix with many, few or no equal sums, depending on the seed."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(0, 40))
    if seed % 5 == 0:
        uneven: Floats = rng.lognormal(size=(size, size))
        return uneven
    values = rng.integers(0, int(rng.choice([1, 2, 3, 10, 1000])) + 1, (size, size))
    kept = rng.random((size, size)) < rng.choice([0.1, 0.5, 1.0])
    return np.where(kept, values, 0).astype(float)


def scipys_assignment(values: Floats) -> list[int]:
    """Return the column of each row."""
    # Imported here because scipy takes a third of a second in each process that collects tests.
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415

    columns: list[int] = linear_sum_assignment(values, maximize=True)[1].tolist()
    return columns


@pytest.mark.parametrize("first", range(0, 3_000, 100))
def test_best_columns_equals_scipys_assignment(first: int) -> None:
    """The assignment equals scipy's on 3,000 random matrices, most with several optima."""
    for seed in range(first, first + 100):
        values = random_values(seed)
        expected = scipys_assignment(values)
        assert best_columns(values).tolist() == expected, seed


@pytest.mark.parametrize("size", [1, 2, 7, 60])
def test_equal_values_keep_every_row_in_place(size: int) -> None:
    """If all values are equal, each row keeps the column of its own number."""
    assert best_columns(np.ones((size, size))).tolist() == list(range(size))


def test_strided_and_transposed_values_are_read_correctly() -> None:
    """A part of another table and a transposed table give the correct assignment."""
    values = random_values(7)
    wide = np.repeat(np.repeat(values, 2, axis=0), 3, axis=1)[::2, ::3]
    assert best_columns(wide).tolist() == best_columns(values).tolist()
    expected = scipys_assignment(values.T)
    assert best_columns(values.T).tolist() == expected
