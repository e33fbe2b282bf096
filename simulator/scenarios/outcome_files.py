"""The outcomes of runs as columns over time, with standard errors over seeds: CSV and Parquet."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from merkatd.cluster import Floats

ERROR: Final = "_se"
"""What the names of columns of standard errors end with."""
_HELP = "needs the Python package pyarrow: pip install 'merkat[parquet]'"


def mean_and_error(values: Floats) -> tuple[Floats, Floats]:
    """Return the mean over the first axis, and its standard error; NaN for a single value."""
    count = len(values)
    if count < 2:
        return values.mean(axis=0), np.full(values.shape[1:], np.nan)
    error: Floats = values.std(axis=0, ddof=1) / np.sqrt(count)
    return values.mean(axis=0), error


def over_seeds(runs: Sequence[Mapping[str, Sequence[float]]]) -> dict[str, Floats]:
    """Return the means of runs that differ in their seeds, each with its standard error."""
    columns: dict[str, Floats] = {}
    for name in runs[0]:
        mean, error = mean_and_error(np.array([run[name] for run in runs], dtype=float))
        columns[name] = mean
        if name != "at_s":
            columns[name + ERROR] = error
    return columns


def write_columns_csv(path: Path, blocks: Sequence[Mapping[str, Any]]) -> None:
    """Write tables below each other; a value that is no array holds for its whole table."""
    names = list(dict.fromkeys(name for block in blocks for name in block))
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(names)
        for block in blocks:
            count = _rows(block)
            cells = [_cells(block.get(name, ""), count) for name in names]
            lines.writerows(zip(*cells, strict=True))


def write_parquet(path: Path, blocks: Sequence[Mapping[str, Any]]) -> str:
    """Write the same tables as Parquet; return why not, or nothing."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an optional dependency
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        path.unlink(missing_ok=True)  # that of an earlier run would have other values
        return _HELP
    tables = [
        pa.table({name: _column(value, _rows(block)) for name, value in block.items()})
        for block in blocks
    ]
    parquet.write_table(pa.concat_tables(tables, promote_options="default"), path)
    return ""


def _rows(block: Mapping[str, Any]) -> int:
    return next(len(value) for value in block.values() if isinstance(value, np.ndarray))


def _column(value: Any, count: int) -> Any:
    return value if isinstance(value, np.ndarray) else [value] * count


def _cells(value: Any, count: int) -> list[str]:
    if isinstance(value, np.ndarray):
        return ["" if np.isnan(each) else f"{each:.10g}" for each in value.tolist()]
    return [str(value)] * count
