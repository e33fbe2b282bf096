"""Requests for VMs as columns: arrivals, lifetimes, sizes and demand curves."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np

from merkatd.cluster import Floats, Ints, VmKind
from merkatd.cluster.columns import Bools, read_only

DAY_S: Final = 86_400.0
"""The period of demand curves."""


_TYPES: Mapping[str, type] = {"kind": np.int64, "owner": np.int64, "spare": np.bool_}
"""The types of columns that are not numbers of any size."""


def _optional() -> Any:
    """Declare a column that may be omitted."""
    return field(default=None)


class RequestsError(ValueError):
    """Raised for invalid requests; the message names column, row, value and what is accepted."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class VmRequests:
    """VMs that tenants request, in order of arrival. Optional columns have defaults.

    A VM demands the part `level * (1 + swing * sin(2 pi (t / DAY_S - phase)))` of its size at the
    time t (Paper III, Eq. 11 and 12, with `level` 1/2).
    """

    resources: tuple[str, ...] = ("cpu", "memory")
    """The names of the resources; `cpu` first, then `memory` in MiB."""
    arrival_s: Floats
    lifetime_s: Floats
    """The time that the guest runs at full speed until the VM ends; infinite for no end."""
    size: Floats
    """[vms, resources]: what the VM can use at most."""
    floor: Floats = _optional()
    """[vms, resources]: what a host keeps for the VM; its size by default."""
    bid: Floats = _optional()
    """[vms, resources]: credits per period; as many as units of its size by default."""
    kind: Ints = _optional()
    """`VmKind` of each VM; services by default."""
    owner: Ints = _optional()
    """The tenant of each VM; 0 by default."""
    level: Floats = _optional()
    swing: Floats = _optional()
    phase: Floats = _optional()
    """[vms]: the demand curve; by default all of the size at all times."""
    dirty_mib_s: Floats = _optional()
    """The rate at which the guest writes to its memory; unknown (NaN) by default."""
    disk_mib: Floats = _optional()
    """The size of disks that a migration copies, as no other host shares them; 0 by default."""
    spare: Bools = _optional()
    """Whether the VM does not arrive by itself: it is one more VM of its owner's application, which
    a strategy may wish; by default no VM."""
    names: Mapping[str, Any] = field(default_factory=dict)
    """Further columns for reports, such as the type of each VM."""

    def __post_init__(self) -> None:
        count, wide = len(self.arrival_s), (len(self.arrival_s), len(self.resources))
        if np.shape(self.size) != wide:
            raise RequestsError(f"size: must have the shape {wide} (got {np.shape(self.size)})")
        defaults = {
            "floor": self.size,
            "bid": self.size,
            "kind": np.full(count, int(VmKind.SERVICE)),
            "owner": np.zeros(count, dtype=np.int64),
            "level": np.ones(count),
            "swing": np.zeros(count),
            "phase": np.zeros(count),
            "dirty_mib_s": np.full(count, np.nan),
            "disk_mib": np.zeros(count),
            "spare": np.zeros(count, dtype=bool),
        }
        for entry in fields(self):
            if entry.name in {"resources", "names"}:
                continue
            value = getattr(self, entry.name)
            if value is None:
                value = defaults[entry.name]
            column: Any = np.asarray(value, dtype=_TYPES.get(entry.name, np.float64))
            object.__setattr__(self, entry.name, read_only(column))
        self._check(count, wide)

    def _check(self, count: int, wide: tuple[int, int]) -> None:
        for entry in fields(self):
            if entry.name in {"resources", "names"}:
                continue
            shape = wide if entry.name in {"size", "floor", "bid"} else (count,)
            if getattr(self, entry.name).shape != shape:
                got = getattr(self, entry.name).shape
                raise RequestsError(f"{entry.name}: must have the shape {shape} (got {got})")
        for name in ("arrival_s", "size", "floor", "bid", "level", "swing", "phase", "disk_mib"):
            self._refuse(name, ~np.isfinite(getattr(self, name)), "must be finite")
        self._refuse("size", self.size <= 0, "must be greater than 0")
        for name in ("arrival_s", "floor", "bid", "level", "disk_mib", "dirty_mib_s"):
            self._refuse(name, getattr(self, name) < 0, "must be at least 0")
        self._refuse("lifetime_s", ~(self.lifetime_s > 0), "must be greater than 0")
        self._refuse("floor", self.floor > self.size, "must not exceed the size")
        self._refuse("swing", np.abs(self.swing) > 1, "must be from -1 to 1")
        known = [int(kind) for kind in VmKind]
        self._refuse("kind", ~np.isin(self.kind, known), f"must be one of {known}")
        early = np.zeros(count, dtype=bool)
        early[1:] = np.diff(self.arrival_s) < 0
        self._refuse("arrival_s", early, "must not be before the row above")

    def _refuse(self, name: str, wrong: Bools, rule: str) -> None:
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0].tolist())
            raise RequestsError(f"{name}, row {at[0]}: {rule} (got {getattr(self, name)[at]:g})")

    def __len__(self) -> int:
        return len(self.arrival_s)

    def demand(self, vms: Ints, at_s: float) -> Floats:
        """Return [vms, resources]: what guests that compute demand (Paper III, Eq. 11 and 12)."""
        part = self.level[vms].copy()
        curved = np.flatnonzero(self.swing[vms] != 0)
        rows = vms[curved]
        turns = at_s / DAY_S - self.phase[rows]
        part[curved] *= 1.0 + self.swing[rows] * np.sin(2.0 * np.pi * turns)
        demand: Floats = self.size[vms] * part[:, np.newaxis]
        return demand

    @property
    def is_batch(self) -> Bools:
        """Return [vms]: whether the VM is a batch job."""
        batch: Bools = self.kind == int(VmKind.BATCH)
        return batch


def joined(first: VmRequests, second: VmRequests) -> VmRequests:
    """Return the requests of both in order of arrival; those of `first` before equal ones."""
    if first.resources != second.resources:
        raise RequestsError(
            f"resources: must be equal (got {first.resources} and {second.resources})"
        )
    order = np.argsort(np.concatenate([first.arrival_s, second.arrival_s]), kind="stable")
    columns: dict[str, Any] = {
        entry.name: np.concatenate([getattr(first, entry.name), getattr(second, entry.name)])[order]
        for entry in fields(VmRequests)
        if entry.name not in {"resources", "names"}
    }
    shared = [name for name in first.names if name in second.names]
    names = {
        name: np.concatenate([first.names[name], second.names[name]])[order] for name in shared
    }
    return VmRequests(resources=first.resources, names=names, **columns)


def until(requests: VmRequests, end_s: float) -> VmRequests:
    """Return the requests that arrive before `end_s`."""
    count = int(np.searchsorted(requests.arrival_s, end_s))
    columns: dict[str, Any] = {
        entry.name: getattr(requests, entry.name)[:count]
        for entry in fields(VmRequests)
        if entry.name not in {"resources", "names"}
    }
    names = {name: values[:count] for name, values in requests.names.items()}
    return replace(requests, names=names, **columns)
