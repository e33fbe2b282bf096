"""How long VMs ran between two observations, from OpenNebula's history records. Pure.

A pool shows the last record of each VM. That is enough where a VM's record is the one that was
seen before, or follows one that was closed then. Where more happened in between, all records of
the VM are needed (`lacking`). What ran between two observations is counted in the charge of the
first one alone, so however often a charge is tried, each second is paid once.

OpenNebula's clock and ours may differ. Times that are new in records must lie between the two
observations; where they don't, the observations are moved by the least that makes them fit.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from merkatd.scheduler.base.ports import NO_RECORD, GuestRecord, Histories
from merkatd.scheduler.observation.looks import Look, are_hidden, rested

CLOCK_STEP_S = 2.0
"""Records have whole seconds; what differs by no more than this is no difference of clocks."""


def lacking(before: Look, now: Look, concerned: Bools) -> list[int]:
    """Return the ids of VMs whose last record does not say all; `concerned` is by `before`'s row.

    One that could not be read is asked for too: else its owner lets it run between looks alone. Not
    where it rested, or ran at both and is long still: then it counts as running all the time. Note
    [VMs whose texts are too long].
    """
    same, old = _unchanged(before, now)
    ran_at_both = before.runs & np.isin(before.vm, now.vm[now.runs])
    hidden = np.isin(before.vm, list(now.hidden)) if now.hidden else np.zeros_like(same)
    enough = (same & _alone_says_all(old)) | (hidden & ran_at_both) | rested(before, now)
    return [
        vm
        for vm in before.vm[concerned & ~enough].tolist()
        if not _says_all(before.records.get(vm), now.records.get(vm))
    ]


def _unchanged(before: Look, now: Look) -> tuple[Bools, Ints]:
    """[vms of `before`]: whether each one's last record is still the same, and its columns then."""
    known, old = before.records.columns_of(before.vm)
    still, new = now.records.columns_of(before.vm)
    return known & still & (old == new).all(axis=1), old


def _alone_says_all(columns: Ints) -> Bools:
    """[vms]: what `_says_all` says of a record that is still the same."""
    seq, ran_from_s, _ = columns.T
    found: Bools = (ran_from_s > 0) | (seq <= 0)
    return found


def _changed(before: Look, now: Look, histories: Histories) -> list[int]:
    """Return the rows of `before` with a new record, none, or more than the last one."""
    same, _ = _unchanged(before, now)
    more = np.isin(before.vm, list(histories)) if histories else np.zeros(len(same), dtype=bool)
    rows: list[int] = np.flatnonzero(~same | more).tolist()
    return rows


def _says_all(old: GuestRecord | None, new: GuestRecord | None) -> bool:
    if old is None or new is None:
        return False
    if new.seq == old.seq:
        # Of a migration under way the record before the last one is the one that runs.
        return old.ran_from_s > 0 or old.seq <= 0
    return new.seq == old.seq + 1 and (old.seq < 0 or old.ran_until_s > 0)


def seconds_run(
    before: Look, now: Look, histories: Histories, placed: Bools | None = None
) -> Floats:
    """[vms of `before`]: for how long each ran from then till now, as far as that is known.

    A VM of which nothing is known now counts as running all the time if it ran before, or was
    `placed` then. And where its texts are too long it does unless it rested for certain.
    """
    could_run = before.runs if placed is None else before.runs | placed
    could_run = could_run | (are_hidden(before, now) & ~rested(before, now))
    elapsed = max(now.at_s - before.at_s, 0.0)
    vms, ran = before.vm.tolist(), before.runs.tolist()
    news = {
        row: _since(
            before.records.get(vms[row]), now.records.get(vms[row]), histories.get(vms[row])
        )
        for row in _changed(before, now, histories)
    }
    shift = _shift(before, now, {vms[row]: records for row, records in news.items()})
    start_s, end_s = before.at_s + shift, now.at_s + shift
    found = _by_the_same_record(before, now, could_run)
    runs_now = set(now.vm[now.runs].tolist()) if news else set()
    for row, records in news.items():
        vm = vms[row]
        if records is None:
            found[row] = elapsed if could_run[row] else 0.0
            continue
        counts = ran[row] or vm in runs_now
        old = before.records.get(vm, NO_RECORD)
        found[row] = sum(_overlap(old, one, start_s, end_s, open_counts=counts) for one in records)
    return np.clip(found, 0.0, elapsed)


def _by_the_same_record(before: Look, now: Look, could_run: Bools) -> Floats:
    """[vms of `before`]: for how long each ran, if its last record did not change."""
    _, old = _unchanged(before, now)
    _, ran_from_s, ran_until_s = old.T
    counts = before.runs | np.isin(before.vm, now.vm[now.runs])
    runs = np.where(_alone_says_all(old), (ran_from_s > 0) & (ran_until_s == 0) & counts, could_run)
    found: Floats = np.where(runs, max(now.at_s - before.at_s, 0.0), 0.0)
    return found


class RestartedCounters(NamedTuple):
    """[vms]: VMs whose guests began anew between two looks, and with them their counters of CPU."""

    before_s: Floats
    """For how long each ran before its last start; 0 for VMs that did not begin anew."""
    since_s: Floats
    """For how long it ran from then on."""
    moved: Bools
    """Whether it began anew because it was migrated: it went on without a break."""


def begun_anew(before: Look, now: Look, histories: Histories) -> RestartedCounters:
    """Return which VMs of `before` began anew since then, as far as their records say."""
    count = len(before.vm)
    found = RestartedCounters(np.zeros(count), np.zeros(count), np.zeros(count, dtype=bool))
    for row in _changed(before, now, histories):
        vm = int(before.vm[row])
        old = before.records.get(vm, NO_RECORD)
        records = _since(before.records.get(vm), now.records.get(vm), histories.get(vm)) or ()
        started = [one for one in records if one.ran_from_s > 0]
        if len(started) < 2:
            continue
        times = [_overlap(old, one, before.at_s, now.at_s, open_counts=True) for one in started]
        gap_s = started[-1].ran_from_s - started[-2].ran_until_s
        found.before_s[row], found.since_s[row] = sum(times[:-1]), times[-1]
        found.moved[row] = 0 <= gap_s <= CLOCK_STEP_S
    return found


class Starts(NamedTuple):
    """How long the guests of a VM ran that began anew between two looks."""

    last_s: float = 0.0
    """Since its last start, where the guest still runs."""
    earlier_s: tuple[float, ...] = ()
    """Each of the others."""


def starts(before: Look, now: Look, histories: Histories) -> Mapping[int, Starts]:
    """Return the starts of VMs, by `before`'s row, as far as their records say.

    One that was off, and whose texts are too long for its history, began anew at once if it can
    have run at all.
    """
    found = {}
    runs_now = set(now.vm[now.runs].tolist())
    unknown = are_hidden(before, now) & ~before.runs & ~rested(before, now)
    for row in _changed(before, now, histories):
        vm = int(before.vm[row])
        if unknown[row] and vm not in histories:
            whole_s = max(now.at_s - before.at_s, 0.0)
            found[row] = Starts(whole_s) if vm in runs_now else Starts(0.0, (whole_s,))
            continue
        old, new = before.records.get(vm), now.records.get(vm)
        if vm not in histories and (old is None or old == new):
            continue
        records = _since(old, new, histories.get(vm)) or ()
        if old is None:
            old = NO_RECORD
            records = [one for one in records if one.ran_from_s >= before.at_s - CLOCK_STEP_S]
        began = [one for one in records if one.ran_from_s > 0 and _began_since(old, one)]
        times = [_overlap(old, one, before.at_s, now.at_s, open_counts=True) for one in began]
        goes_on = bool(began) and began[-1].ran_until_s <= 0 and vm in runs_now
        last_s = times.pop() if goes_on else 0.0
        if last_s > 0 or times:
            found[row] = Starts(last_s, tuple(times))
    return found


def was_moving(before: Look, histories: Histories, vm: int) -> bool:
    """Whether the VM was migrated at that look: it still ran by the record before its last one."""
    old = before.records.get(vm, NO_RECORD)
    return old.ran_from_s <= 0 and any(
        one.seq == old.seq - 1
        and one.ran_from_s > 0
        and (one.ran_until_s <= 0 or one.ran_until_s >= before.at_s)
        for one in histories.get(vm, ())
    )


def _began_since(old: GuestRecord, one: GuestRecord) -> bool:
    return one.seq > old.seq or (one.seq == old.seq and old.ran_from_s <= 0)


def _since(
    old: GuestRecord | None, new: GuestRecord | None, history: Sequence[GuestRecord] | None
) -> Sequence[GuestRecord] | None:
    """Return the records in which the VM may have run since it had the old one last.

    None where they are not known.
    """
    if history is not None:
        return [one for one in history if old is None or _may_count(old, one)]
    if old is None or new is None or not _says_all(old, new):
        return None
    return [] if new is NO_RECORD or (new.seq == old.seq and not _is_open(old, new)) else [new]


def _may_count(old: GuestRecord, one: GuestRecord) -> bool:
    """Whether the VM may have run by a record since it had the old one last.

    While a VM is moved it still runs by the record before its last one, and by no earlier one.
    """
    if one.seq == old.seq:
        return _is_open(old, one)
    return one.seq > old.seq or (one.seq == old.seq - 1 and old.ran_from_s == 0)


def _is_open(old: GuestRecord, same: GuestRecord) -> bool:
    """Whether a record was not closed before; OpenNebula may write RETIME once more."""
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
    """Return the seconds to add to our times to make them OpenNebula's, 0 where they agree.

    `news`: by VM id, of the VMs whose records changed.

    Only what happened between the two looks says anything: it lies within the time between them,
    if that is moved. Where it can't, its times contradict each other, and nothing is moved.
    """
    fresh = [
        moment
        for vm, records in news.items()
        for one in records or ()
        if vm not in before.hidden
        for moment in _new_moments(before.records[vm], one)
    ]
    if not fresh or max(fresh) - min(fresh) > now.at_s - before.at_s + 2 * CLOCK_STEP_S:
        return 0.0
    behind, ahead = min(fresh) - before.at_s, max(fresh) - now.at_s
    if ahead > CLOCK_STEP_S:
        return ahead
    return behind if behind < -CLOCK_STEP_S else 0.0


def _new_moments(old: GuestRecord, new: GuestRecord) -> list[int]:
    """Return the times in a record that were not known when the VM had the old one.

    An earlier record than the old one may have been closed before that, nobody knows when.
    """
    if new.seq < old.seq:
        return []
    moments = [new.ran_from_s, new.ran_until_s]
    if new.seq == old.seq:
        moments = [one for one in moments if one not in {old.ran_from_s, old.ran_until_s}]
    return [one for one in moments if one > 0]


def at_least(seconds: Floats, least_s: float, elapsed_s: float) -> Floats:
    """[vms]: the charged seconds: at least `least_s` for a VM that ran, if so much time passed."""
    least = min(least_s, elapsed_s)
    found: Floats = np.where(seconds > 0, np.maximum(seconds, least), 0.0)
    return found
