"""Snapshots: all data that a decision may depend on, and their consistency checks.

Strategies trust a checked snapshot and check nothing again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from merkatd.cluster.applications import ApplicationTables, Jobs, Replicated, Services, Stages
from merkatd.cluster.columns import (
    NO_MARKET,
    ColumnType,
    Floats,
    Ints,
    Table,
    column_types,
    is_one_of,
    no_rows,
    read_only,
    row_of,
)
from merkatd.cluster.hosts import FailureRates, Hosts, Markets, Requirements
from merkatd.cluster.vms import Orders, RolePairs, Roles, Vms


@dataclass(frozen=True, slots=True, eq=False)
class UsageHistory:
    """Recent use, oldest first; NaN before a VM or host existed."""

    at_s: Floats
    """[samples]: the times of the samples."""
    vms: Floats
    """[samples, vms, resources]"""
    hosts: Floats
    """[samples, hosts, resources]"""

    def __post_init__(self) -> None:
        for entry in fields(self):
            object.__setattr__(self, entry.name, read_only(getattr(self, entry.name)))


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The cloud at a moment, as an immutable value."""

    now_s: float
    period: int
    resources: tuple[str, ...]
    markets: Markets
    hosts: Hosts
    vms: Vms
    requirements: Requirements = field(default_factory=lambda: no_rows(Requirements))
    roles: Roles = field(default_factory=lambda: no_rows(Roles))
    role_pairs: RolePairs = field(default_factory=lambda: no_rows(RolePairs))
    orders: Orders = field(default_factory=lambda: no_rows(Orders))
    jobs: Jobs = field(default_factory=lambda: no_rows(Jobs))
    stages: Stages = field(default_factory=lambda: no_rows(Stages))
    services: Services = field(default_factory=lambda: no_rows(Services))
    replicated: Replicated = field(default_factory=lambda: no_rows(Replicated))
    failure_rates: FailureRates = field(default_factory=lambda: no_rows(FailureRates))
    history: UsageHistory | None = None

    def tables(self) -> Iterator[tuple[str, Table]]:
        """Yield each table with its name; tables come after the tables they refer to."""
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, Table):
                yield entry.name, value

    def host_row(self, host_id: int) -> int:
        """Return the row of the host with this id; raise KeyError if there is none."""
        return _known_row(self.hosts.id, host_id)

    def vm_row(self, vm_id: int) -> int:
        """Return the row of the VM with this id; raise KeyError if there is none."""
        return _known_row(self.vms.id, vm_id)


def _known_row(ids: Ints, wanted: int) -> int:
    row = row_of(ids, wanted)
    if row is None:
        raise KeyError(wanted)
    return row


def with_applications(snapshot: Snapshot, applications: Ints) -> Snapshot:
    """Return the snapshot with only these applications in its tables."""
    its = ApplicationTables(
        jobs=snapshot.jobs,
        stages=snapshot.stages,
        services=snapshot.services,
        replicated=snapshot.replicated,
    )
    kept = its.only(applications)
    if kept is its:
        return snapshot
    return replace(
        snapshot,
        jobs=kept.jobs,
        stages=kept.stages,
        services=kept.services,
        replicated=kept.replicated,
    )


class SnapshotError(ValueError):
    """Raised for an invalid snapshot; the message names the place, the value and what is valid."""


def checked_snapshot(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot if it is consistent; raise SnapshotError otherwise."""
    if len(set(snapshot.resources)) != len(snapshot.resources) or not snapshot.resources:
        raise SnapshotError("resources: must be at least one name, all different")
    if not np.isfinite(snapshot.now_s):
        raise SnapshotError(f"now_s: must be finite (got {snapshot.now_s})")
    sizes = {name: len(table) for name, table in snapshot.tables()}
    for name, table in snapshot.tables():
        for column, form in column_types(type(table)).items():
            _check_column(snapshot, table, name, column, form, sizes)
    _check_ids("hosts", snapshot.hosts)
    _check_ids("vms", snapshot.vms)
    for name in ("markets", "hosts", "requirements", "roles"):
        _check_names(f"{name}.name", getattr(snapshot, name).name)
    _check_names("failure_rates.kind", snapshot.failure_rates.kind)
    _check_order(snapshot)
    _check_history(snapshot)
    return snapshot


_AT_MOST = (
    ("hosts", "idle_watts", "full_watts"),
    ("jobs", "submitted_s", "goal_s"),
    ("stages", "least_speed", "greatest_speed"),
)
"""Tables with two columns of which the first is at most the second, where both are known."""


def checked_file(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot of a file if it is consistent, and its numbers are possible ones.

    The daemon refuses such numbers where it reads them, and must not stop for one.
    """
    checked_snapshot(snapshot)
    for name, table in snapshot.tables():
        for column, form in column_types(type(table)).items():
            if form.from_0:
                values = getattr(table, column)
                _refuse(f"{name}.{column}", values, values < 0, "must be at least 0")
    for name, lower, upper in _AT_MOST:
        table = getattr(snapshot, name)
        least, most = getattr(table, lower), getattr(table, upper)
        wrong = np.flatnonzero(least > most)
        if len(wrong):
            row = int(wrong[0])
            key = getattr(table, table.key)[row]
            raise SnapshotError(
                f"{name}.{upper}, row {row} ({table.key} {key}): must be at least {lower},"
                f" {least[row]:.15g} (got {most[row]:.15g})"
            )
    return snapshot


_WIDE = frozenset({"vector", "members", "levels", "scores"})
"""The types of columns with several values a row."""


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
            raise SnapshotError(f"{where}: must have {rows} entries (got {len(values)})")
        return
    if form.what not in _WIDE:
        _check_shape(where, values, (rows,))
        _check_values(where, values, form, sizes)
        return
    if rows == 0:
        return
    missing = form.later and values.ndim == 2 and values.shape[1] == 0
    widths = {
        "vector": 0 if missing else len(snapshot.resources),
        "members": sizes.get(form.target, 0),
        "levels": values.shape[1] if values.ndim == 2 else -1,
        "scores": sizes.get(form.target, 0) if values.size else 0,
    }
    _check_shape(where, values, (rows, widths[form.what]))
    _check_values(where, values, form, sizes)


def _check_shape(where: str, values: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
    if values.shape != shape:
        raise SnapshotError(f"{where}: must have the shape {shape} (got {values.shape})")


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
        _refuse(where, values, ~is_one_of(values, known), f"must be one of {known}")
    elif form.what == "reference":
        outside = (values < -1) | (values >= sizes[form.target])
        _refuse(where, values, outside, f"must be a row of {form.target}, or -1")


def _refuse(where: str, values: npt.NDArray[Any], wrong: npt.NDArray[Any], rule: str) -> None:
    if wrong.any():
        row = int(np.argwhere(wrong)[0][0])
        value = values[tuple(np.argwhere(wrong)[0])]
        raise SnapshotError(f"{where}, row {row}: {rule} (got {value})")


def _check_ids(name: str, table: Hosts | Vms) -> None:
    if len(table) and (np.diff(table.id) <= 0).any():
        row = int(np.argmax(np.diff(table.id) <= 0)) + 1
        raise SnapshotError(
            f"{name}.id, row {row}: must be greater than the id before (got {table.id[row]})"
        )


def _check_names(where: str, names: tuple[str, ...]) -> None:
    seen: set[str] = set()
    for entry in names:
        if entry in seen:
            raise SnapshotError(f"{where}: names must be unique (got {entry!r} twice)")
        seen.add(entry)


def _check_order(snapshot: Snapshot) -> None:
    if (np.diff(snapshot.stages.job) < 0).any():
        raise SnapshotError("stages.job: the stages of a job must be adjacent, in jobs' order")
    inverted = (snapshot.vms.floor > snapshot.vms.cap) if len(snapshot.vms) else np.zeros((0, 1))
    if inverted.any():
        row = int(np.argwhere(inverted)[0][0])
        raise SnapshotError(
            f"vms.floor, row {row}: the floor of VM {snapshot.vms.id[row]} must not exceed its cap"
        )


def _check_history(snapshot: Snapshot) -> None:
    history = snapshot.history
    if history is None:
        return
    samples, resources = len(history.at_s), len(snapshot.resources)
    _check_shape("history.vms", history.vms, (samples, len(snapshot.vms), resources))
    _check_shape("history.hosts", history.hosts, (samples, len(snapshot.hosts), resources))
    if samples and (np.diff(history.at_s) <= 0).any():
        raise SnapshotError("history.at_s: samples must be in ascending order of time")


def view_of_market(snapshot: Snapshot, row: int) -> Snapshot:
    """Return the cloud as one market sees it: without the others' hosts, VMs and applications."""
    if len(snapshot.markets) <= 1:
        return snapshot
    hosts, vms = snapshot.hosts, snapshot.vms
    return with_applications(
        replace(
            snapshot,
            hosts=replace(hosts, market=np.where(hosts.market == row, row, NO_MARKET)),
            vms=replace(vms, market=np.where(vms.market == row, row, NO_MARKET)),
        ),
        vms.application[vms.market == row],
    )
