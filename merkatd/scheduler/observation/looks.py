"""What an observation showed of when VMs ran: their last records, or the numbers of these. Pure.

# Note [VMs whose texts are too long]

A VM can get texts of many megabytes, and then no period reads them (`Resting`). Its history records
stand among them. But the end of its outline, which OpenNebula writes after all texts of the owner,
has the number of its last record, and a VM that is started gets a new record. So a VM that is off
at two looks with the same number did not run in between. Of others the history is read, for a few
of each owner: each may have as much text as an answer can have. The rest counts as running for the
whole period, and so does a VM whose history can't be read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Ints
from merkatd.scheduler.base.last_records import LastRecords
from merkatd.scheduler.base.ports import NO_RECORD, UNKNOWN, Observation

HIDDEN = -2
"""Kept in the place of the number of a VM's last record where its texts were not read; the number
follows."""

Arrays = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What an observation, or the decision that was made of it, showed of VMs."""

    at_s: float
    vm: Ints
    runs: Bools
    """[vms]: runs, or is on its way on a host."""
    records: LastRecords
    """By VM id, of VMs that ended too as far as they are known."""
    hidden: Mapping[int, int] = field(default_factory=dict)
    """By id of VMs that could not be read: the number of the last record, or UNKNOWN."""

    def numbers(self, vms: Ints) -> Ints:
        """[vms]: the number of the last record of each of them, or UNKNOWN."""
        known, columns = self.records.columns_of(vms)
        hidden = self.hidden
        found: Ints = np.where(known, columns[:, 0], UNKNOWN)
        if hidden:
            for row in np.flatnonzero(np.isin(vms, list(hidden))).tolist():
                found[row] = hidden[int(vms[row])]
        return found


def kept(seen: Observation) -> Arrays:
    """Return the column of records that a period keeps for its charge."""
    records = seen.records
    if records is None:
        return {}
    found = np.column_stack([records.seq, records.ran_from_s, records.ran_until_s])
    hidden = np.isin(seen.vm_id, list(seen.by_record))
    found[hidden, 1] = found[hidden, 0]
    found[hidden, 0] = HIDDEN
    return {"record": found}


def look_of(seen: Observation, runs: Bools) -> Look | None:
    """Return what an observation showed, None where the cloud keeps no records."""
    records = seen.records
    if records is None:
        return None
    columns = np.column_stack([records.seq, records.ran_from_s, records.ran_until_s])
    numbered = np.isin(seen.vm_id, list(seen.by_record))
    numbers = zip(seen.vm_id[numbered].tolist(), records.seq[numbered].tolist(), strict=True)
    hidden = dict.fromkeys(seen.ailing, UNKNOWN) | dict(numbers)
    shown = ~np.isin(seen.vm_id, list(hidden))
    present = set(seen.vm_id.tolist()) if seen.ended else set()
    gone = {vm: one for vm, one in seen.ended.items() if vm not in hidden and vm not in present}
    ended = np.array(list(gone.values()), dtype=np.int64).reshape(-1, 3)
    vms = np.concatenate([seen.vm_id[shown], np.array(list(gone), dtype=np.int64)])
    known = LastRecords(vms, np.concatenate([columns[shown], ended]))
    return Look(seen.at_s, seen.vm_id, runs, known, hidden)


def look_back(arrays: Arrays | None, at_s: float) -> Look | None:
    """Return what the decision of a period kept, None where it kept no records."""
    if arrays is None or "record" not in arrays:
        return None
    vm, columns = arrays["vm"], arrays["record"]
    shown = columns[:, 0] != HIDDEN
    records = LastRecords(vm[shown], columns[shown])
    hidden = dict(zip(vm[~shown].tolist(), columns[~shown, 1].tolist(), strict=True))
    return Look(at_s, vm, arrays["runs"], records, hidden)


def never_ran(arrays: Arrays) -> Bools:
    """[vms]: had no history record at all when a period was decided."""
    first, second, _ = arrays["record"].T
    found: Bools = np.where(first == HIDDEN, second, first) == NO_RECORD.seq
    return found


def are_hidden(before: Look, now: Look) -> Bools:
    """[vms of `before`]: could not be read at one of the two looks, or at both."""
    ids = before.hidden.keys() | now.hidden.keys()
    found: Bools = np.isin(before.vm, list(ids)) if ids else np.zeros(len(before.vm), dtype=bool)
    return found


def rested(before: Look, now: Look) -> Bools:
    """[vms of `before`]: hidden ones that were off at both looks, with no new record since then."""
    off = ~before.runs & np.isin(before.vm, now.vm[~now.runs])
    found: Bools = are_hidden(before, now) & off
    if found.any():
        old, new = before.numbers(before.vm), now.numbers(before.vm)
        found &= (old == new) & (old != UNKNOWN)
    return found
