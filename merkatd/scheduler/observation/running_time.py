"""Running times of VMs between two observations, from OpenNebula's history records; pure.

A pool shows the last record of each VM. That is enough if the record is the one seen before, or
follows one that was closed then. If more happened in between, all records of the VM are needed
(`lacking`). The time between two observations is charged for the first one alone. So each second is
paid once, however often a charge is retried.

OpenNebula's clock and the daemon's may differ. New times in records must lie between the two
observations. If they don't, the observations are shifted by the smallest amount that makes them
fit.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import is_one_of
from merkatd.scheduler.base.guests import by_guest
from merkatd.scheduler.base.ports import NO_RECORD, GuestRecord, Histories, VmChange
from merkatd.scheduler.observation.looks import Look, are_hidden, rested

CLOCK_STEP_S = 2.0
"""The tolerance for differences of clocks, since records have whole seconds."""


def lacking(before: Look, now: Look, concerned: Bools) -> list[int]:
    """Return the ids of VMs whose last record is not sufficient; `concerned` is by `before`'s row.

    Unreadable VMs are included. Otherwise an owner could let such a VM run between observations
    only. They are excluded if they rested, or if they ran at both observations and are still
    unreadable: then they count as running all the time. See Note [VMs whose texts are too long].
    """
    same, old = _unchanged(before, now)
    ran_at_both = before.runs & is_one_of(before.vm, now.vm[now.runs])
    hidden = is_one_of(before.vm, now.hidden) if now.hidden else np.zeros_like(same)
    enough = (same & _alone_says_all(old)) | (hidden & ran_at_both) | rested(before, now)
    return [
        vm
        for vm in before.vm[concerned & ~enough].tolist()
        if not _says_all(before.records.get(vm), now.records.get(vm))
    ]


def _unchanged(before: Look, now: Look) -> tuple[Bools, Ints]:
    """[vms of `before`]: whether the last record is unchanged, and its earlier columns."""
    known, old = before.records.columns_of(before.vm)
    still, new = now.records.columns_of(before.vm)
    return known & still & (old == new).all(axis=1), old


def _alone_says_all(columns: Ints) -> Bools:
    """[vms]: the result of `_says_all` for an unchanged record."""
    seq, ran_from_s, _ = columns.T
    enough: Bools = (ran_from_s > 0) | (seq <= 0)
    return enough


def changed_rows(before: Look, now: Look, histories: Histories) -> list[int]:
    """Return the rows of `before` with a new record, no record, or several new ones."""
    same, _ = _unchanged(before, now)
    more = is_one_of(before.vm, histories) if histories else np.zeros(len(same), dtype=bool)
    rows: list[int] = np.flatnonzero(~same | more).tolist()
    return rows


def _says_all(old: GuestRecord | None, new: GuestRecord | None) -> bool:
    if old is None or new is None:
        return False
    if new.seq == old.seq:
        # During a migration the VM runs by the record before the last one.
        return old.ran_from_s > 0 or old.seq <= 0
    return new.seq == old.seq + 1 and (old.seq < 0 or old.ran_until_s > 0)


def seconds_run(
    before: Look, now: Look, histories: Histories, placed: Bools | None = None
) -> Floats:
    """[vms of `before`]: the running time of each from then until now, as far as it is known.

    A VM without known records counts as running all the time if it ran before, was `placed` then,
    or may have started since. So does an unreadable VM, unless it certainly rested.
    """
    could_run = before.runs if placed is None else before.runs | placed
    could_run = could_run | (are_hidden(before, now) & ~rested(before, now))
    elapsed = max(now.at_s - before.at_s, 0.0)
    vms, ran = before.vm.tolist(), before.runs.tolist()
    news = {
        row: records_since(
            before.records.get(vms[row]), now.records.get(vms[row]), histories.get(vms[row])
        )
        for row in changed_rows(before, now, histories)
    }
    shift = _shift(before, now, {vms[row]: records for row, records in news.items()})
    start_s, end_s = before.at_s + shift, now.at_s + shift
    seconds = _by_the_same_record(before, now, could_run)
    runs_now = set(now.vm[now.runs].tolist()) if news else set()
    for row, records in news.items():
        vm = vms[row]
        if records is None:
            may_run = could_run[row] or _may_have_started(before, now, row)
            seconds[row] = elapsed if may_run else 0.0
            continue
        counts = ran[row] or vm in runs_now
        old = before.records.get(vm, NO_RECORD)
        seconds[row] = sum(
            _overlap(old, record, start_s, end_s, open_counts=counts) for record in records
        )
    return np.clip(seconds, 0.0, elapsed)


def _by_the_same_record(before: Look, now: Look, could_run: Bools) -> Floats:
    """[vms of `before`]: the running time of each VM whose last record did not change."""
    _, old = _unchanged(before, now)
    _, ran_from_s, ran_until_s = old.T
    counts = before.runs | is_one_of(before.vm, now.vm[now.runs])
    runs = np.where(_alone_says_all(old), (ran_from_s > 0) & (ran_until_s == 0) & counts, could_run)
    seconds: Floats = np.where(runs, max(now.at_s - before.at_s, 0.0), 0.0)
    return seconds


class RestartedCounters(NamedTuple):
    """[vms]: VMs whose guests, and so their CPU counters, restarted between two looks."""

    before_s: Floats
    """The running time before the last start; 0 for VMs that did not restart."""
    since_s: Floats
    """The running time since the last start."""
    moved: Bools
    """Whether the restart was a migration, without an interruption."""


def begun_anew(before: Look, now: Look, histories: Histories) -> RestartedCounters:
    """Return the VMs of `before` that have restarted since, as far as records show it."""
    count = len(before.vm)
    restarted = RestartedCounters(np.zeros(count), np.zeros(count), np.zeros(count, dtype=bool))
    for row in changed_rows(before, now, histories):
        vm = int(before.vm[row])
        old = before.records.get(vm, NO_RECORD)
        records = (
            records_since(before.records.get(vm), now.records.get(vm), histories.get(vm)) or ()
        )
        guests = by_guest(record for record in records if record.ran_from_s > 0)
        if len(guests) < 2:
            continue
        times = [time_of(guest, old, before.at_s, now.at_s) for guest in guests]
        gap_s = guests[-1][0].ran_from_s - guests[-2][-1].ran_until_s
        restarted.before_s[row], restarted.since_s[row] = sum(times[:-1]), times[-1]
        restarted.moved[row] = 0 <= gap_s <= CLOCK_STEP_S
    return restarted


class Starts(NamedTuple):
    """The running times of a VM's guests that started between two observations."""

    last_s: float = 0.0
    """The running time since the last start, if the guest still runs."""
    earlier_s: tuple[float, ...] = ()
    """The running time of each earlier guest."""
    resized: bool = False
    """Whether the VM may have had another size meanwhile."""


def starts(before: Look, now: Look, histories: Histories) -> Mapping[int, Starts]:
    """Return the starts of VMs, by `before`'s row, as far as records show them.

    An unreadable VM that was off counts as started at once, if it may have run at all.
    """
    starts_of_row = {}
    runs_now = set(now.vm[now.runs].tolist())
    unknown = are_hidden(before, now) & ~before.runs & ~rested(before, now)
    for row in changed_rows(before, now, histories):
        vm = int(before.vm[row])
        old, new = before.records.get(vm), now.records.get(vm)
        records = records_since(old, new, histories.get(vm))
        if records is None and (unknown[row] or _may_have_started(before, now, row)):
            whole_s = max(now.at_s - before.at_s, 0.0)
            guest_starts = Starts(whole_s) if vm in runs_now else Starts(0.0, (whole_s,))
            starts_of_row[row] = guest_starts._replace(resized=bool(unknown[row]))
            continue
        if vm not in histories and (old is None or old == new):
            continue
        records = records or ()
        if old is None:
            old = NO_RECORD
            records = [
                record for record in records if record.ran_from_s >= before.at_s - CLOCK_STEP_S
            ]
        guests = by_guest(record for record in records if record.ran_from_s > 0)
        began = [guest for guest in guests if not guest[0].goes_on and _began_since(old, guest[0])]
        times = [time_of(guest, old, before.at_s, now.at_s) for guest in began]
        goes_on = bool(began) and began[-1][-1].ran_until_s <= 0 and vm in runs_now
        last_s = times.pop() if goes_on else 0.0
        if last_s > 0 or times:
            resized = any(
                record.change is VmChange.SIZE and record.seq > old.seq for record in records
            )
            starts_of_row[row] = Starts(last_s, tuple(times), resized)
    return starts_of_row


def recorded_starts(before: Look, now: Look, histories: Histories) -> Mapping[int, int]:
    """Return the number of starts in the records of VMs, by `before`'s row; migrations included."""
    counts = {}
    for row in changed_rows(before, now, histories):
        vm = int(before.vm[row])
        old = before.records.get(vm)
        records = records_since(old, now.records.get(vm), histories.get(vm)) or ()
        guests = by_guest(record for record in records if record.ran_from_s > 0)
        old = old or NO_RECORD
        counts[row] = sum(not guest[0].goes_on and _began_since(old, guest[0]) for guest in guests)
    return counts


def time_of(guest: Sequence[GuestRecord], old: GuestRecord, start_s: float, end_s: float) -> float:
    """Return how long a guest ran between these times, by its records."""
    return sum(_overlap(old, record, start_s, end_s, open_counts=True) for record in guest)


def guests_since(old: GuestRecord, history: Sequence[GuestRecord] | None) -> int | None:
    """Return the number of guests that have started since; None if the records are not known.

    A change of a VM that is off has a record too, which ends as it begins.
    """
    if history is None or (history and history[0].seq > old.seq + 1):
        return None
    guests = by_guest(
        record for record in history if record.ran_from_s > 0 and _began_since(old, record)
    )
    return sum(not guest[0].goes_on and any(map(_lasts, guest)) for guest in guests)


def _lasts(record: GuestRecord) -> bool:
    return not 0 < record.ran_until_s <= record.ran_from_s


def was_moving(before: Look, histories: Histories, vm: int) -> bool:
    """Return whether the VM was migrating then: it ran by the record before its last one."""
    old = before.records.get(vm, NO_RECORD)
    return old.ran_from_s <= 0 and any(
        record.seq == old.seq - 1
        and record.ran_from_s > 0
        and (record.ran_until_s <= 0 or record.ran_until_s >= before.at_s)
        for record in histories.get(vm, ())
    )


def _may_have_started(before: Look, now: Look, row: int) -> bool:
    """Return whether a VM that was off has a new record since, or is gone without a record."""
    vm = int(before.vm[row])
    old, new = before.records.get(vm), now.records.get(vm)
    if before.runs[row] or old is None or old.seq < 0:
        return False
    return vm not in now.vm if new is None else _began_since(old, new)


def _began_since(old: GuestRecord, record: GuestRecord) -> bool:
    return record.seq > old.seq or (record.seq == old.seq and old.ran_from_s <= 0)


def records_since(
    old: GuestRecord | None, new: GuestRecord | None, history: Sequence[GuestRecord] | None
) -> Sequence[GuestRecord] | None:
    """Return the records in which the VM may have run since its last record was `old`.

    None if they are not known, or not all of them.
    """
    if history is not None:
        if history and old is not None and history[0].seq > old.seq + 1:
            return None
        # Readers leave out records that ended long before, by a clock that may be wrong.
        newest = history[-1].seq if history else NO_RECORD.seq
        if old is not None and new is not None and new.seq > max(old.seq, newest):
            return None
        return [record for record in history if old is None or _may_count(old, record)]
    if old is None or new is None or not _says_all(old, new):
        return None
    return [] if new is NO_RECORD or (new.seq == old.seq and not _is_open(old, new)) else [new]


def _may_count(old: GuestRecord, record: GuestRecord) -> bool:
    """Return whether the VM may have run by a record since its last record was `old`.

    During a migration a VM runs by the record before its last one, and by no earlier one.
    """
    if record.seq == old.seq:
        return _is_open(old, record)
    return record.seq > old.seq or (record.seq == old.seq - 1 and old.ran_from_s == 0)


def _is_open(old: GuestRecord, same: GuestRecord) -> bool:
    """Return whether a record was not closed before; OpenNebula may write RETIME once more."""
    return old.ran_until_s == 0 or same.ran_until_s == 0


def _overlap(
    old: GuestRecord, record: GuestRecord, start_s: float, end_s: float, *, open_counts: bool
) -> float:
    if record.ran_from_s <= 0 or (record.ran_until_s <= 0 and not open_counts):
        return 0.0
    until_s = record.ran_until_s if record.ran_until_s > 0 else end_s
    known = record.seq < old.seq or (record.seq == old.seq and old.ran_from_s > 0)
    from_s = start_s if known else max(record.ran_from_s, start_s)
    return max(min(until_s, end_s) - from_s, 0.0)


def _shift(before: Look, now: Look, news: Mapping[int, Sequence[GuestRecord] | None]) -> float:
    """Return the seconds to add to the daemon's times to get OpenNebula's; 0 if they agree.

    `news` are the records by VM id, of the VMs whose records changed.

    Only events between the two observations are evidence: with the right shift they lie within that
    time. If no shift can achieve that, the event times contradict each other, and the shift is 0.
    """
    fresh = [
        moment
        for vm, records in news.items()
        for record in records or ()
        if vm not in before.hidden
        for moment in _new_moments(before.records[vm], record)
    ]
    if not fresh or max(fresh) - min(fresh) > now.at_s - before.at_s + 2 * CLOCK_STEP_S:
        return 0.0
    behind, ahead = min(fresh) - before.at_s, max(fresh) - now.at_s
    if ahead > CLOCK_STEP_S:
        return ahead
    return behind if behind < -CLOCK_STEP_S else 0.0


def _new_moments(old: GuestRecord, new: GuestRecord) -> list[int]:
    """Return the times in a record that were not known when the VM had the old one.

    A record before the old one may have been closed earlier, at an unknown time.
    """
    if new.seq < old.seq:
        return []
    moments = [new.ran_from_s, new.ran_until_s]
    if new.seq == old.seq:
        moments = [moment for moment in moments if moment not in {old.ran_from_s, old.ran_until_s}]
    return [moment for moment in moments if moment > 0]


def at_least(seconds: Floats, least_s: float, elapsed_s: float) -> Floats:
    """[vms]: the charged seconds, at least `least_s` (or `elapsed_s`) for a VM that ran."""
    least = min(least_s, elapsed_s)
    lengthened: Floats = np.where(seconds > 0, np.maximum(seconds, least), 0.0)
    return lengthened
