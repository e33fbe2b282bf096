"""Snapshot: everything a decision may depend on, and whether its columns belong together.

Inside, nothing is checked twice: strategies trust what has passed here.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from merkatd.cluster.applications import Jobs, Replicated, Services, Stages
from merkatd.cluster.columns import ColumnType, Floats, Table, _row, column_types, read_only
from merkatd.cluster.hosts import Hosts, Markets, Requirements
from merkatd.cluster.vms import RolePairs, Roles, Vms


@dataclass(frozen=True, slots=True, eq=False)
class UsageHistory:
    """Recent use, oldest first; NaN where a VM or host was not there yet."""

    at_s: Floats
    """[samples]"""
    vms: Floats
    """[samples, vms, resources]"""
    hosts: Floats
    """[samples, hosts, resources]"""

    def __post_init__(self) -> None:
        for entry in fields(self):
            object.__setattr__(self, entry.name, read_only(getattr(self, entry.name)))


def no_rows(table: type[Table]) -> Any:
    """A table of this type with nothing in it, for what a cloud does not have."""
    columns: dict[str, Any] = {}
    for name, form in column_types(table).items():
        if form.what == "text":
            columns[name] = ()
        elif form.what in {"number", "vector"}:
            columns[name] = np.zeros(0)
        elif form.what == "scores":
            columns[name] = np.zeros((0, 0))
        elif form.what in {"flag", "members"}:
            columns[name] = np.zeros((0, 0), dtype=bool)
        else:
            columns[name] = np.zeros(0, dtype=np.int64)
    return table(**columns)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The cloud at one moment. A value: strategies read it and change nothing in it."""

    now_s: float
    period: int
    resources: tuple[str, ...]
    markets: Markets
    hosts: Hosts
    vms: Vms
    requirements: Requirements = field(default_factory=lambda: no_rows(Requirements))
    roles: Roles = field(default_factory=lambda: no_rows(Roles))
    role_pairs: RolePairs = field(default_factory=lambda: no_rows(RolePairs))
    jobs: Jobs = field(default_factory=lambda: no_rows(Jobs))
    stages: Stages = field(default_factory=lambda: no_rows(Stages))
    services: Services = field(default_factory=lambda: no_rows(Services))
    replicated: Replicated = field(default_factory=lambda: no_rows(Replicated))
    history: UsageHistory | None = None

    def tables(self) -> Iterator[tuple[str, Table]]:
        """Each table with its name, in the order in which references can be resolved."""
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, Table):
                yield entry.name, value

    def stages_of(self, job: int) -> slice:
        """The rows of the stages of one job."""
        first, last = np.searchsorted(self.stages.job, [job, job + 1])
        return slice(int(first), int(last))

    def host_row(self, host_id: int) -> int:
        """The row of the host with this id; KeyError where there is none."""
        return _row(self.hosts.id, host_id)

    def vm_row(self, vm_id: int) -> int:
        """The row of the VM with this id; KeyError where there is none."""
        return _row(self.vms.id, vm_id)


class SnapshotError(ValueError):
    """A snapshot that can't be used; the message names the place, the value and what is right."""


def checked_snapshot(snapshot: Snapshot) -> Snapshot:
    """The snapshot itself, when it is consistent; SnapshotError otherwise."""
    if len(set(snapshot.resources)) != len(snapshot.resources) or not snapshot.resources:
        raise SnapshotError("resources: must be different names, at least one")
    if not np.isfinite(snapshot.now_s):
        raise SnapshotError(f"now_s: {snapshot.now_s} is no time")
    sizes = {name: len(table) for name, table in snapshot.tables()}
    for name, table in snapshot.tables():
        for column, form in column_types(type(table)).items():
            _check_column(snapshot, table, name, column, form, sizes)
    _check_ids("hosts", snapshot.hosts)
    _check_ids("vms", snapshot.vms)
    for name in ("markets", "hosts", "requirements", "roles"):
        _check_names(name, getattr(snapshot, name).name)
    _check_order(snapshot)
    _check_history(snapshot)
    return snapshot


def _check_column(
    snapshot: Snapshot,
    table: Table,
    name: str,
    column: str,
    form: ColumnType,
    sizes: dict[str, int],
) -> None:
    rows = len(table)
    values = getattr(table, column)
    where = f"{name}.{column}"
    if form.what == "pairs":
        for kind, part in values.items():
            _check_shape(f"{where}.{kind}", part, (rows, 2))
        return
    if form.what == "text":
        if len(values) != rows:
            raise SnapshotError(f"{where}: has {len(values)} entries for {rows} rows")
        return
    missing = form.later and values.ndim == 2 and values.shape[1] == 0
    shapes: dict[str, tuple[int, ...]] = {
        "vector": (rows, 0 if missing else len(snapshot.resources)),
        "members": (rows, sizes.get(form.target, 0)),
        "levels": (rows, values.shape[1] if values.ndim == 2 else -1),
        "scores": (rows, sizes.get(form.target, 0) if values.size else 0),
    }
    if rows == 0 and form.what in {"vector", "members", "levels", "scores"}:
        return
    _check_shape(where, values, shapes.get(form.what, (rows,)))
    _check_values(where, values, form, sizes)


def _check_shape(where: str, values: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise SnapshotError(f"{where}: has the shape {values.shape}, {shape} is right")


def _check_values(
    where: str, values: npt.NDArray[Any], form: ColumnType, sizes: dict[str, int]
) -> None:
    if form.what in {"number", "vector", "scores"}:
        _refuse(where, values, np.isinf(values), "must be finite")
        if form.default is not None or form.what == "scores":
            _refuse(where, values, np.isnan(values), "must be a number")
        if form.what == "vector":
            _refuse(where, values, values < 0, "must be at least 0")
    elif form.what == "choice" and form.choices is not None:
        known = [int(choice) for choice in form.choices]
        _refuse(where, values, ~np.isin(values, known), f"must be one of {known}")
    elif form.what == "reference":
        outside = (values < -1) | (values >= sizes[form.target])
        _refuse(where, values, outside, f"is no row of {form.target}")


def _refuse(where: str, values: npt.NDArray[Any], wrong: npt.NDArray[Any], right: str) -> None:
    if wrong.any():
        row = int(np.argwhere(wrong)[0][0])
        value = values[tuple(np.argwhere(wrong)[0])]
        raise SnapshotError(f"{where}, row {row}: {value} {right}")


def _check_ids(name: str, table: Hosts | Vms) -> None:
    if len(table) and (np.diff(table.id) <= 0).any():
        row = int(np.argmax(np.diff(table.id) <= 0)) + 1
        raise SnapshotError(f"{name}.id, row {row}: {table.id[row]} must be above the one before")


def _check_names(name: str, names: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for entry in names:
        if entry in seen:
            raise SnapshotError(f"{name}.name: {entry!r} stands there twice")
        seen.add(entry)


def _check_order(snapshot: Snapshot) -> None:
    if (np.diff(snapshot.stages.job) < 0).any():
        raise SnapshotError("stages.job: the stages of a job must stand together, in jobs' order")
    inverted = (snapshot.vms.floor > snapshot.vms.cap) if len(snapshot.vms) else np.zeros((0, 1))
    if inverted.any():
        row = int(np.argwhere(inverted)[0][0])
        raise SnapshotError(
            f"vms.floor, row {row}: VM {snapshot.vms.id[row]} has a floor above its cap"
        )


def _check_history(snapshot: Snapshot) -> None:
    history = snapshot.history
    if history is None:
        return
    samples, resources = len(history.at_s), len(snapshot.resources)
    _check_shape("history.vms", history.vms, (samples, len(snapshot.vms), resources))
    _check_shape("history.hosts", history.hosts, (samples, len(snapshot.hosts), resources))
    if samples and (np.diff(history.at_s) <= 0).any():
        raise SnapshotError("history.at_s: samples must stand in the order of time")
