"""Snapshot: everything a decision may depend on, as columns, built once a period."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from merkatd.cluster.arrays import Floats, Ints, frozen
from merkatd.cluster.columns import Table, forms
from merkatd.cluster.tables import (
    Hosts,
    Jobs,
    Markets,
    Replicated,
    Requirements,
    RolePairs,
    Roles,
    Services,
    Stages,
    Vms,
)


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Recent use, oldest first; NaN where a VM or host was not there yet."""

    at_s: Floats
    """[samples]"""
    vms: Floats
    """[samples, vms, resources]"""
    hosts: Floats
    """[samples, hosts, resources]"""

    def __post_init__(self) -> None:
        for entry in fields(self):
            object.__setattr__(self, entry.name, frozen(getattr(self, entry.name)))


def no_rows(table: type[Table]) -> Any:
    """A table of this type with nothing in it, for what a cloud does not have."""
    columns: dict[str, Any] = {}
    for name, form in forms(table).items():
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
    history: History | None = None

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


def _row(ids: Ints, wanted: int) -> int:
    row = int(np.searchsorted(ids, wanted))
    if row == len(ids) or ids[row] != wanted:
        raise KeyError(wanted)
    return row
