"""The last history records of all VMs of an observation, in columns."""

from collections.abc import Iterator, Mapping

import numpy as np

from merkatd.cluster import Bools, Ints
from merkatd.cluster.columns import NO_ROW, row_of, rows_of
from merkatd.scheduler.base.ports import GuestRecord


class LastRecords(Mapping[int, GuestRecord]):
    """The last record of each VM, by VM id, in columns, because most records did not change.

    Only changed records become objects, one at a time.
    """

    def __init__(self, vm: Ints, columns: Ints) -> None:
        order = np.argsort(vm, kind="stable")
        self._vm = vm[order]
        self._columns = columns[order]

    @staticmethod
    def of(records: Mapping[int, GuestRecord]) -> "LastRecords":
        """Return the same records in columns."""
        columns = np.array([record[:3] for record in records.values()], dtype=np.int64).reshape(
            -1, 3
        )
        return LastRecords(np.array(list(records), dtype=np.int64), columns)

    def columns_of(self, vms: Ints) -> tuple[Bools, Ints]:
        """Return which of these VMs are known, and the three columns of their records."""
        if not len(self._vm):
            return np.zeros(len(vms), dtype=bool), np.zeros((len(vms), 3), dtype=np.int64)
        rows = rows_of(self._vm, vms)
        return rows != NO_ROW, self._columns[rows]

    def __getitem__(self, vm: int) -> GuestRecord:
        row = row_of(self._vm, vm)
        if row is None:
            raise KeyError(vm)
        return GuestRecord(*self._columns[row].tolist())

    def __iter__(self) -> Iterator[int]:
        return iter(self._vm.tolist())

    def __len__(self) -> int:
        return len(self._vm)
