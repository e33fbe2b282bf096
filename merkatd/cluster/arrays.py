"""The array types of all columns, and how an array is made unchangeable."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Scalar = TypeVar("Scalar", bound=np.generic)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def frozen(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """The same values, in an array that refuses to be changed."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view
