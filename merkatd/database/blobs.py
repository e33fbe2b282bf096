"""Arrays by name as one compressed blob, and back."""

import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

_MARK = b"MKA1"
_LENGTH_BYTES = 4
_KINDS = "biuf"
"""Kinds of numpy types that may be stored: flags and numbers, never objects."""

Arrays = Mapping[str, npt.NDArray[Any]]


def pack(arrays: Arrays) -> bytes:
    """The arrays with their names, types and shapes, compressed."""
    columns = []
    parts = []
    for name, array in arrays.items():
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"array {name!r} holds {array.dtype}; only flags and numbers are kept")
        stored = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        columns.append([name, stored.dtype.str, list(array.shape)])
        parts.append(stored.tobytes())
    header = json.dumps(columns, separators=(",", ":")).encode()
    length = len(header).to_bytes(_LENGTH_BYTES, "little")
    return _MARK + zlib.compress(b"".join([length, header, *parts]))


def unpack(blob: bytes) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a blob; ValueError where it is not one of ours, or damaged."""
    if blob[: len(_MARK)] != _MARK:
        raise ValueError(f"a blob of arrays starts with {_MARK!r}, not with {blob[:4]!r}")
    try:
        data = zlib.decompress(blob[len(_MARK) :])
    except zlib.error as error:
        raise ValueError(f"a blob of arrays is damaged: {error}") from error
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    offset = _LENGTH_BYTES + length
    arrays = {}
    for name, dtype, shape in json.loads(data[_LENGTH_BYTES:offset]):
        count = int(np.prod(shape, dtype=np.int64))
        flat = np.frombuffer(data, dtype=dtype, count=count, offset=offset)
        arrays[name] = flat.reshape(shape)
        offset += flat.nbytes
    return arrays
