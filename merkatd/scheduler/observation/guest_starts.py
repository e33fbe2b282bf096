"""Repeated starts of guests: charging the memory that they hold beyond their shares.

# Note [Memory of guests that start]

A guest starts with all of its memory. Its balloon then takes back the excess over its share, within
seconds or minutes. Until then the guest holds that memory for the price of its share. For a single
start that is accepted. But a VM of 8 GiB with a share of 270 MiB that is restarted each minute
holds 6 GiB all the time, for 4 % of the price.

So starts are counted by owner, for an hour. A start does not count while its guest runs and has
half of its memory or more. So a tenant that starts a hundred VMs, bids for their memory and lets
them run has a count of zero. A guest that is lost with its host counts as running, and the next
start of its VM is free (`LostGuests`). If an owner has more than three counted starts, its guests
that started within the hour also pay for memory beyond their shares, at the price of the period.
The amount is the mean of their memory at the period's beginning and end. Example: such a guest has
8,192 MiB at the beginning, 5,900 at the end, and a share of 270. It pays for (8,192 + 5,900) / 2 -
270 = 6,776 MiB more.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from merkatd.cluster import ACTIVE, Bools, Floats, Ints
from merkatd.cluster.columns import NO_HOST, NO_OWNER, NO_ROW, is_one_of, row_of, rows_of
from merkatd.limits.enforced_limits import MEMORY
from merkatd.scheduler.base.guests import LostGuests, PlacedGuest
from merkatd.scheduler.base.ports import DEVICES, NO_RECORD, UNKNOWN, GuestRecord, GuestUse
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.observation.running_time import guests_since
from merkatd.scheduler.observation.snapshot_builder import MEMORY as COLUMN

FREE = 3
"""The number of free starts within the time below, of guests that stopped or are squeezed."""
REMEMBERED_S = 3600.0
DAY_S = 86_400.0
"""The time in which each VM has one free start besides its first boot. For network and disk it is
free while its guest runs, because guests crash, and platforms are suspended and resumed. So is
one attached device instead."""


_NONE: Mapping[int, int] = MappingProxyType({})


class _Start(NamedTuple):
    """One start of a guest."""

    at_s: float
    vm: int
    free: bool
    """Whether the start does not count while its guest runs."""
    device: bool = False
    """Whether a device was attached instead: its guest has no limit for that."""


class _Guests(NamedTuple):
    """The guests that ran in a period, and the VMs without a guest."""

    vm: Ints
    run: Ints
    host: Ints
    seq: Ints
    """[guests]: the number of the last record of each. Rows ascend by VM id."""
    idle: Mapping[int, tuple[int, GuestRecord]]
    """By id of each VM without a guest: its owner, and its last record."""
    hidden: AbstractSet[int]
    """The ids of VMs whose last record is only known by its number."""

    def by_vm(self) -> dict[int, PlacedGuest]:
        """Return the host and the run of each guest by VM id."""
        places = map(PlacedGuest, self.host.tolist(), self.run.tolist())
        return dict(zip(self.vm.tolist(), places, strict=True))


class GuestStarts:
    """The starts of guests, counted from the daemon's start."""

    def __init__(self) -> None:
        self._before: _Guests | None = None
        self._starts: dict[int, list[_Start]] = {}
        """Starts, by owner."""
        self._restarted: dict[int, float] = {}
        """By VM: the time of its last free start, apart from its first boot."""
        self._forgot_s = 0.0
        self._lost = LostGuests()
        self.started: frozenset[int] = frozenset()
        """VMs whose guests restarted before the last observation, not because of a migration."""
        self.often: frozenset[int] = frozenset()
        """VMs of owners with too many starts that count for network and disk."""

    def note(self, observed: Observed, replaced: Mapping[int, int] = _NONE) -> frozenset[int]:
        """Take note of started guests; return the VMs that pay for memory beyond shares.

        `replaced`: by VM id, how often its domain was seen replaced since the last observation.
        """
        at_s, vms = observed.observation.at_s, observed.snapshot.vms
        self.started = self.often = frozenset()
        now = _guests(observed)
        if now is None:
            return frozenset()
        if self._before is not None:
            started = list(_started(observed, self._before, now))
            started += _only_seen(observed, replaced, Counter(vm for _, vm, _ in started))
            hosts = observed.snapshot.hosts
            self._lost.note(self._before.by_vm(), hosts.id, hosts.state)
            started, counted = self._lost.counted(started, now.by_vm())
            self.started = frozenset(vm for _, vm, _ in started)
            for owner, vm, first in counted:
                free = first or self._is_first_of_the_day(vm, at_s)
                self._starts.setdefault(owner, []).append(_Start(at_s, vm, free))
            for owner, vm in _with_devices(observed, self._before, now):
                start = _Start(at_s, vm, self._is_first_of_the_day(vm, at_s), device=True)
                self._starts.setdefault(owner, []).append(start)
        self._before = now
        self._forget(at_s)
        run_on = {*now.vm.tolist(), *self._lost.vms}
        self.often = self._of_many_starts(observed, run_on, limits=True)
        return self._of_many_starts(observed, run_on - set(vms.id[_is_squeezed(observed)].tolist()))

    def _is_first_of_the_day(self, vm: int, at_s: float) -> bool:
        """Return whether a VM that ran before gets a free start, and count it as used."""
        if abs(at_s - self._restarted.get(vm, -DAY_S)) < DAY_S:
            return False
        self._restarted[vm] = at_s
        return True

    def _of_many_starts(
        self, observed: Observed, run_on: AbstractSet[int], *, limits: bool = False
    ) -> frozenset[int]:
        """Return the VMs of owners with too many counted starts.

        `limits`: whether this is about resources that guests use before they get limits. Memory
        beyond the share returns to the host while a guest keeps running; sent data does not. So
        with `limits` only a VM's first boot and one more start a day are free, and any VM may be
        the next one, even a running one.
        """
        vms = observed.snapshot.vms
        vms_often: set[int] = set()
        for owner, noted in self._starts.items():
            starts = [start for start in noted if limits or not start.device]
            begun = {start.vm for start in starts}
            for_nothing = len(begun & run_on)
            if limits:
                for_nothing = sum(start.free and start.vm in run_on for start in starts)
            if len(starts) - for_nothing > FREE:
                next_ = (vms.owner == owner) & (limits | _may_start(vms.state))
                vms_often |= begun | set(vms.id[next_].tolist())
        return frozenset(vms_often)

    def _forget(self, at_s: float) -> None:
        """Drop old entries, and entries with dates in the future from a wrong clock."""
        if abs(at_s - self._forgot_s) > REMEMBERED_S:
            self._forgot_s = at_s
            there = self._restarted.items()
            self._restarted = {vm: was_s for vm, was_s in there if abs(at_s - was_s) < DAY_S}
        for owner, starts in list(self._starts.items()):
            kept = [start for start in starts if abs(at_s - start.at_s) <= REMEMBERED_S]
            if kept:
                self._starts[owner] = kept
            else:
                del self._starts[owner]


def _guests(observed: Observed) -> _Guests | None:
    """Return the running guests; None if restarts can't be detected."""
    observation, use, vms = observed.observation, observed.use, observed.snapshot.vms
    records = observation.records
    if use.run is None or records is None or MEMORY not in observed.snapshot.resources:
        return None
    at = rows_of(vms.id, use.vm_id)
    host = np.append(observed.snapshot.hosts.id, NO_HOST)[np.append(vms.host, NO_HOST)[at]]
    rows = np.flatnonzero(~is_one_of(observation.vm_id, use.vm_id)).tolist()
    idle = {
        int(observation.vm_id[row]): (
            int(observation.vm_owner[row]),
            GuestRecord(
                int(records.seq[row]),
                int(records.ran_from_s[row]),
                int(records.ran_until_s[row]),
            ),
        )
        for row in rows
    }
    seq = np.append(records.seq, UNKNOWN)[rows_of(observation.vm_id, use.vm_id)]
    return _Guests(use.vm_id, use.run, host, seq, idle, observation.by_record.keys())


def _started(observed: Observed, before: _Guests, now: _Guests) -> Iterator[tuple[int, int, bool]]:
    """Yield the owner and the id of each VM whose guest restarted, and whether it never ran before.

    A VM is yielded once for each start, since each start has a record. A migration is not a start.
    A guest that started and ended in between left a record. For a VM with too long texts only the
    number of that record is known.
    """
    vms, histories = observed.snapshot.vms, observed.histories
    at = rows_of(before.vm, now.vm)
    known = at != NO_ROW
    same_host = np.append(before.host, NO_HOST)[at] == now.host
    anew = ~known | ((np.append(before.run, -1)[at] != now.run) & same_host)
    old = np.append(before.seq, UNKNOWN)[at]
    rows = rows_of(vms.id, now.vm)
    for guest in np.flatnonzero(anew & (rows != NO_ROW)).tolist():
        vm = int(now.vm[guest])
        was = before.idle[vm][1] if vm in before.idle else _running(int(old[guest]))
        starts = max(_count(was, int(now.seq[guest]), histories.get(vm)), 1)
        unheard = vm not in before.idle and not known[guest]
        # A guest can also be replaced without a new record.
        first = (now.seq[guest] == 0 and not known[guest]) or (now.seq[guest] < 0 and unheard)
        for count in range(starts):
            yield int(vms.owner[rows[guest]]), vm, bool(first and count == 0)
    hidden = before.hidden | now.hidden
    for vm, (owner, record) in before.idle.items():
        new = now.idle[vm][1] if vm in now.idle else observed.observation.ended.get(vm)
        if new is None:
            continue
        ran = new.seq != record.seq or new.seq == UNKNOWN
        if ran if vm in hidden else _has_run(record, new):
            for _ in range(_count(record, new.seq, histories.get(vm))):
                yield owner, vm, False
    for vm, seq in zip(before.vm.tolist(), before.seq.tolist(), strict=True):
        owner, last = now.idle.get(vm, (NO_OWNER, NO_RECORD))
        if last.seq > seq >= 0 and last.ran_from_s > 0:
            for _ in range(_count(_running(seq), last.seq, histories.get(vm))):
                yield owner, vm, False


def _only_seen(
    observed: Observed, replaced: Mapping[int, int], counted: Mapping[int, int]
) -> Iterator[tuple[int, int, bool]]:
    """Yield the replaced domains that neither records nor the latest two observations show."""
    vms = observed.snapshot.vms
    for vm, count in replaced.items():
        row = row_of(vms.id, vm)
        for _ in range(count - counted.get(vm, 0) if row is not None else 0):
            yield int(vms.owner[row]), vm, False


def _with_devices(observed: Observed, before: _Guests, now: _Guests) -> Iterator[tuple[int, int]]:
    """Yield the owner and the id of each VM whose running guest got a network card or a disk.

    For a guest whose VM has too long texts, a new record is all that is known of a device.
    """
    seen = dict(zip(before.vm.tolist(), before.seq.tolist(), strict=True))
    vms = observed.snapshot.vms
    for guest in np.flatnonzero(np.isin(now.vm, list(now.hidden))).tolist():
        vm, seq = int(now.vm[guest]), int(now.seq[guest])
        row, at = row_of(vms.id, vm), row_of(before.vm, vm)
        if vm in observed.histories or row is None or at is None:
            continue
        same = before.run[at] == now.run[guest] and before.host[at] == now.host[guest]
        if same and seq > before.seq[at] >= 0:
            yield int(vms.owner[row]), vm
    for vm, history in observed.histories.items():
        old = before.idle[vm][1].seq if vm in before.idle else seen.get(vm, UNKNOWN)
        devices = (record for record in history if record.goes_on and record.change in DEVICES)
        row = row_of(vms.id, vm)
        if row is not None and old != UNKNOWN and any(device.seq > old for device in devices):
            yield int(vms.owner[row]), vm


def _has_run(before: GuestRecord, now: GuestRecord) -> bool:
    """Return whether a VM without a guest has run since, by its last records.

    A change of a VM that is off, such as a backup, adds a record that ends as it begins.
    """
    changed = now.seq == before.seq + 1 and now.ran_until_s == now.ran_from_s
    return now.ran_from_s > 0 and now[:2] != before[:2] and not changed


def _running(seq: int) -> GuestRecord:
    """Return the last record of a guest that runs, of which only the number is known."""
    return GuestRecord(seq, 1)


def _count(before: GuestRecord, now: int, history: Sequence[GuestRecord] | None) -> int:
    """Return the number of starts from a VM's last record to the one with the number `now`."""
    if min(before.seq, now) < 0:
        return 1
    guests = guests_since(before, history)
    return max(now - before.seq, 1) if guests is None else guests


def _boots_with(observed: Observed) -> Floats:
    """[vms]: MiB at boot; a cap limits only the memory that a guest keeps.

    With MEMORY_MAX a guest boots with that, and its balloon then shrinks it to MEMORY. No guest has
    more than the largest host.
    """
    snapshot, boots = observed.snapshot, observed.observation.vm_boots_mib
    sizes = observed.in_force.boots_with(snapshot.vms.cap[:, COLUMN])
    largest = float(snapshot.hosts.capacity[:, COLUMN].max(initial=0.0))
    return sizes if boots is None else np.fmax(sizes, np.minimum(boots, largest))


def _is_squeezed(observed: Observed) -> Bools:
    """[vms]: whether the VM has less than half of its memory."""
    squeezed: Bools = observed.snapshot.vms.held[:, COLUMN] < _boots_with(observed) / 2
    return squeezed


def _may_start(state: Ints) -> Bools:
    """[vms]: whether the VM has no guest yet, and may get one before the next period."""
    may_start: Bools = ~is_one_of(state, ACTIVE)
    return may_start


def start_columns(observed: Observed) -> Mapping[str, Any]:
    """Return the charge's columns for such VMs, if there are any.

    `begins_mib`, [vms], is the memory at the beginning of the period, or at the coming start; NaN
    for all other VMs. `size_mib` is the memory after another start.
    """
    vms = observed.snapshot.vms
    again = is_one_of(vms.id, observed.restarted)
    if not again.any():
        return {}
    begins, size = begins_with(observed)
    return {"begins_mib": np.where(again, begins, np.nan), "size_mib": size}


def begins_with(observed: Observed) -> tuple[Floats, Floats]:
    """[vms]: MiB that each has now or will start with, and its MiB after another start."""
    vms = observed.snapshot.vms
    size, held = _boots_with(observed), vms.held[:, COLUMN]
    return np.where(_may_start(vms.state) | np.isnan(held), size, held), size


def beyond_mib(
    arrays: Mapping[str, Any], rows: Ints, restarted: Collection[int], use: GuestUse | None
) -> Floats:
    """[rows]: the memory of each VM beyond its share; `restarted` are rows that started meanwhile.

    `use` is the hosts' measurement at the end of the period; None if it is no longer known.
    """
    if "begins_mib" not in arrays:
        return np.zeros(len(rows))
    begins, size = arrays["begins_mib"][rows], arrays["size_mib"][rows]
    begins = np.where(is_one_of(rows, restarted) & ~np.isnan(begins), size, begins)
    ends = begins
    if use is not None and len(use.vm_id):
        measured_rows = rows_of(use.vm_id, arrays["vm"][rows])
        ends = np.where(measured_rows >= 0, np.fmin(use.held_mib[measured_rows], begins), begins)
    mean = (begins + ends) / 2
    beyond: Floats = np.nan_to_num(np.maximum(mean - arrays["allocation"][rows, COLUMN], 0.0))
    return beyond
