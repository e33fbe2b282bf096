"""Arrays survive storage in a blob."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from merkatd.database.base.schema import pack, unpack

ARRAYS = hnp.arrays(
    dtype=st.sampled_from([np.float64, np.int64, np.bool_, np.int32]),
    shape=hnp.array_shapes(max_dims=3, min_side=0, max_side=6),
)


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=8), ARRAYS, max_size=4))
def test_names_types_shapes_and_values_survive(arrays: dict[str, np.ndarray]) -> None:
    """Any numbers and flags survive, including NaN and infinity."""
    unpacked = unpack(pack(arrays))
    assert list(unpacked) == list(arrays)
    for name, array in arrays.items():
        assert unpacked[name].dtype == array.dtype
        np.testing.assert_array_equal(unpacked[name], array)


@settings(deadline=None)
@given(st.binary(max_size=60), st.booleans())
def test_garbage_is_a_value_error(garbage: bytes, marked: bool) -> None:
    """Bytes that are not a blob raise `ValueError` and no other error."""
    with pytest.raises(ValueError, match="blob of arrays"):
        unpack(b"MKA1" + garbage if marked else b"x" + garbage)


def test_arrays_of_objects_are_rejected() -> None:
    """Reading an array of objects back would run code."""
    with pytest.raises(TypeError, match="'who'"):
        pack({"who": np.array([object()])})
