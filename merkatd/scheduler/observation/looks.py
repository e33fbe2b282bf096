"""Looks: the running VMs of an observation with their last records, or the records' numbers.

# Note [VMs whose texts are too long]

A VM can get texts of many megabytes, and then no period reads them (`SeldomRead`). Its history
records are among them. But the end of the VM's outline contains the number of its last record,
because OpenNebula writes it after the owner's texts. A VM that is started gets a new record. So a
VM that is off at two observations with the same number did not run in between. For the others the
history is read, but only for a few VMs of each owner, since each history may fill a whole answer.
The rest count as running for the whole period. So does a VM whose history can't be read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Ints, VmState
from merkatd.cluster.columns import is_one_of
from merkatd.scheduler.base.last_records import LastRecords
from merkatd.scheduler.base.ports import NO_RECORD, UNKNOWN, GuestUse, Observation

HIDDEN = -2
"""A marker in place of a last record's number, for texts that were not read; the number follows."""

Arrays = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """The VMs of one observation, or of the decision based on it."""

    at_s: float
    vm: Ints
    runs: Bools
    """[vms]: whether each runs, or is in transition on a host."""
    records: LastRecords
    """Last records by VM id, including those of ended VMs if they are known."""
    hidden: Mapping[int, int] = field(default_factory=dict)
    """By id of unreadable VMs: the number of the last record, or UNKNOWN."""

    def numbers(self, vms: Ints) -> Ints:
        """Return [vms]: the number of the last record of each VM, or UNKNOWN."""
        known, columns = self.records.columns_of(vms)
        hidden = self.hidden
        record_numbers: Ints = np.where(known, columns[:, 0], UNKNOWN)
        if hidden:
            for row in np.flatnonzero(is_one_of(vms, hidden)).tolist():
                record_numbers[row] = hidden[int(vms[row])]
        return record_numbers


def records_column(seen: Observation) -> Arrays:
    """Return the column of records that a period stores for its charge."""
    records = seen.records
    if records is None:
        return {}
    columns = np.column_stack([records.seq, records.ran_from_s, records.ran_until_s])
    hidden = is_one_of(seen.vm_id, seen.by_record)
    columns[hidden, 1] = columns[hidden, 0]
    columns[hidden, 0] = HIDDEN
    return {"record": columns}


def look_of(seen: Observation, runs: Bools) -> Look | None:
    """Return the look of an observation, None if the cloud keeps no records."""
    records = seen.records
    if records is None:
        return None
    columns = np.column_stack([records.seq, records.ran_from_s, records.ran_until_s])
    numbered = is_one_of(seen.vm_id, seen.by_record)
    numbers = zip(seen.vm_id[numbered].tolist(), records.seq[numbered].tolist(), strict=True)
    hidden = dict.fromkeys(seen.ailing, UNKNOWN) | dict(numbers)
    shown = ~is_one_of(seen.vm_id, hidden)
    present = set(seen.vm_id.tolist()) if seen.ended else set()
    gone = {
        vm: record for vm, record in seen.ended.items() if vm not in hidden and vm not in present
    }
    ended = np.array([record[:3] for record in gone.values()], dtype=np.int64).reshape(-1, 3)
    vms = np.concatenate([seen.vm_id[shown], np.array(list(gone), dtype=np.int64)])
    known = LastRecords(vms, np.concatenate([columns[shown], ended]))
    return Look(seen.at_s, seen.vm_id, runs, known, hidden)


def look_back(arrays: Arrays | None, at_s: float) -> Look | None:
    """Return the look that a period's decision stored, None if it stored no records."""
    if arrays is None or "record" not in arrays:
        return None
    vm, columns = arrays["vm"], arrays["record"]
    shown = columns[:, 0] != HIDDEN
    records = LastRecords(vm[shown], columns[shown])
    hidden = dict(zip(vm[~shown].tolist(), columns[~shown, 1].tolist(), strict=True))
    return Look(at_s, vm, arrays["runs"], records, hidden)


def never_ran(arrays: Arrays) -> Bools:
    """[vms]: whether the VM had no history record when a period was decided."""
    first, second, _ = arrays["record"].T
    never: Bools = np.where(first == HIDDEN, second, first) == NO_RECORD.seq
    return never


def are_hidden(before: Look, now: Look) -> Bools:
    """[vms of `before`]: whether the VM was unreadable at one of the two looks, or at both."""
    ids = before.hidden.keys() | now.hidden.keys()
    unreadable: Bools = is_one_of(before.vm, ids) if ids else np.zeros(len(before.vm), dtype=bool)
    return unreadable


def rested(before: Look, now: Look) -> Bools:
    """[vms of `before`]: unreadable VMs that were off at both looks, without a new record since."""
    off = ~before.runs & is_one_of(before.vm, now.vm[~now.runs])
    resting: Bools = are_hidden(before, now) & off
    if resting.any():
        old, new = before.numbers(before.vm), now.numbers(before.vm)
        resting &= (old == new) & (old != UNKNOWN)
    return resting


def missing_guests(look: Observation, use: GuestUse) -> Ints:
    """Return the ids of VMs that run on hosts that answer, and whose guests can't be read there."""
    if use.run is None:
        return look.vm_id[:0]
    runs = (look.vm_state == VmState.RUNNING) & (look.vm_host >= 0)
    runs = runs if look.vm_stays is None else runs | look.vm_stays
    runs = runs if look.vm_coming is None else runs & (look.vm_coming < 0)
    excused = is_one_of(look.vm_host, use.away) | is_one_of(look.vm_id, use.vm_id)
    vms_missing: Ints = look.vm_id[runs & ~excused]
    return vms_missing
