"""The VM table of Azure's public traces (`vmtable.csv`, versions 1 and 2): a VM per line.

The eleven columns are, without a header: VM, subscription, deployment, time of creation and of
deletion in seconds, greatest, mean and 95th percentile of CPU use in percent, category, virtual
cores, memory in GB. Version 2 has buckets for cores and memory; the last bucket, such as `>24`, is
read as its bound.
"""

import csv
import gzip
from collections.abc import Iterable, Iterator
from math import inf, isfinite
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from merkatd.cluster import VmKind
from simulator.workloads.vm_requests import VmRequests

COLUMNS: Final = 11
_UNITS_PER_CORE: Final = 100.0
_MIB_PER_GB: Final = 1024.0
_KINDS: Final = {
    "delay-insensitive": VmKind.BATCH,
    "interactive": VmKind.SERVICE,
    "unknown": VmKind.SERVICE,
}
_REPORT_S: Final = 300.0
"""The trace has a reading each five minutes: a VM deleted in the moment of its creation lived for
less."""


class AzureTableError(Exception):
    """Raised for an unreadable table; the message names file, line, value and what is accepted."""


class _Row(NamedTuple):
    line: int
    subscription: str
    created_s: float
    deleted_s: float
    mean_part: float
    kind: VmKind
    cores: float
    memory_gb: float


def read_azure_vms(path: Path, *, most: int | None = None, trace_end_s: float = inf) -> VmRequests:
    """Return the VMs of a table (plain or .gz) by creation; only the first `most` lines.

    The demand of a VM is constant: its mean CPU use. VMs that are deleted at `trace_end_s` or later
    never end. `names` has the line of each VM. Raise AzureTableError for an unreadable table.
    """
    try:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8", errors="backslashreplace", newline="") as lines:
            rows = list(_some(parse_azure_vms(lines, str(path)), most))
    except (OSError, EOFError, csv.Error) as error:
        raise AzureTableError(f"{path}: {error}") from None
    rows.sort(key=lambda row: row.created_s)
    tenants: dict[str, int] = {}
    ends = [inf if row.deleted_s >= trace_end_s else row.deleted_s for row in rows]
    lifetimes = [
        max(end_s - row.created_s, _REPORT_S) for row, end_s in zip(rows, ends, strict=True)
    ]
    size = [(row.cores * _UNITS_PER_CORE, row.memory_gb * _MIB_PER_GB) for row in rows]
    return VmRequests(
        arrival_s=np.array([row.created_s for row in rows], dtype=float),
        lifetime_s=np.array(lifetimes, dtype=float),
        size=np.array(size, dtype=float).reshape(len(rows), 2),
        kind=np.array([int(row.kind) for row in rows], dtype=np.int64),
        owner=np.array(
            [tenants.setdefault(row.subscription, len(tenants)) for row in rows], dtype=np.int64
        ),
        level=np.array([row.mean_part for row in rows], dtype=float),
        names={"line": np.array([row.line for row in rows], dtype=np.int64)},
    )


def _some(rows: Iterator[_Row], most: int | None) -> Iterator[_Row]:
    for count, row in enumerate(rows):
        if count == most:
            return
        yield row


def parse_azure_vms(lines: Iterable[str], name: str) -> Iterator[_Row]:
    """Yield the VMs of a table, in its order."""
    reader, line = csv.reader(lines), 0
    for words in reader:
        begin, line = line + 1, reader.line_num  # an open quote goes on over lines
        where = f"{name}:{begin}"
        if not words:
            continue
        if len(words) != COLUMNS:
            raise AzureTableError(f"{where}: a VM must have {COLUMNS} columns (got {len(words)})")
        yield _row([word.strip() for word in words], where, begin)


def _row(words: list[str], where: str, line: int) -> _Row:
    created_s = _number(words[3], where, "the time of creation", 0.0, inf)
    deleted_s = _number(words[4], where, "the time of deletion", 0.0, inf)
    if deleted_s < created_s:
        raise AzureTableError(
            f"{where}: the time of deletion must not be before the creation at {words[3]}"
            f" (got {words[4]})"
        )
    kind = _KINDS.get(words[8].lower())
    if kind is None:
        raise AzureTableError(
            f"{where}: the category must be Delay-insensitive, Interactive or Unknown"
            f" (got {words[8]!r})"
        )
    return _Row(
        line=line,
        subscription=words[1],
        created_s=created_s,
        deleted_s=deleted_s,
        mean_part=_number(words[6], where, "the mean CPU use", 0.0, 100.0) / 100.0,
        kind=kind,
        cores=_number(words[9].removeprefix(">"), where, "the number of cores", 1e-3, 1e6),
        memory_gb=_number(words[10].removeprefix(">"), where, "the memory", 1e-3, 1e6),
    )


def _number(word: str, where: str, what: str, least: float, most: float) -> float:
    """Return a number within bounds."""
    try:
        value = float(word)
    except ValueError:
        value = inf
    if not isfinite(value) or not least <= value <= most:
        accepted = f"at least {least:g}" if most == inf else f"from {least:g} to {most:g}"
        raise AzureTableError(f"{where}: {what} must be a number {accepted} (got {word!r})")
    return value
