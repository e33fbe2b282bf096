"""Network cards and disks that owners attach to running guests: the time without limits; pure.

# Note [Devices without limits]

A device that is attached to a running guest gets its limit in the next period. Until then it can
use all network or disk of its host, and an owner can attach a new one after each period. OpenNebula
divides the VM's history record where it attaches a device. So the guest was without limits from the
start of that record until it ended, or until the next observation. Such a time is paid like a start
(Note [Network and disk of guests that start] in `unlimited_time.py`), by the same owners: those
with more than three starts or attached devices within an hour.
"""

from collections.abc import Mapping

from merkatd.scheduler.base.guests import by_guest
from merkatd.scheduler.base.ports import DEVICES, NO_RECORD, UNKNOWN, Histories
from merkatd.scheduler.observation.looks import Look
from merkatd.scheduler.observation.running_time import (
    changed_rows,
    records_since,
    time_of,
)

TimesWithoutLimits = Mapping[int, Mapping[str, float]]
"""The seconds without limits by good, for each row."""


def times_without_limits(before: Look, now: Look, histories: Histories) -> TimesWithoutLimits:
    """Return how long attached devices of each VM had no limits, by `before`'s row.

    A guest whose records are not known had them all the time if its VM has a new record.
    """
    times: dict[int, dict[str, float]] = {}
    runs_now = set(now.vm[now.runs].tolist())
    old_number, new_number = before.numbers(before.vm), now.numbers(before.vm)
    may_differ = (old_number != new_number) | (old_number == UNKNOWN)
    for row in changed_rows(before, now, histories):
        vm = int(before.vm[row])
        old = before.records.get(vm)
        records = records_since(old, now.records.get(vm), histories.get(vm))
        if records is None:
            if before.runs[row] and vm in runs_now and may_differ[row]:
                times[row] = dict.fromkeys(DEVICES, max(now.at_s - before.at_s, 0.0))
            continue
        old = old or NO_RECORD
        for guest in by_guest(record for record in records if record.ran_from_s > 0):
            for device in DEVICES:
                at = (
                    place
                    for place, record in enumerate(guest)
                    if record.change is device and record.goes_on and record.seq > old.seq
                )
                first = next(at, len(guest))
                seconds = time_of(guest[first:], old, before.at_s, now.at_s)
                if seconds > 0:
                    by_good = times.setdefault(row, {})
                    by_good[device] = by_good.get(device, 0.0) + seconds
    return times
