"""The guests in a VM's history records."""

from collections.abc import Iterable

from merkatd.scheduler.base.ports import GuestRecord


def by_guest(records: Iterable[GuestRecord]) -> list[list[GuestRecord]]:
    """Return the records of each guest, which has several if its VM was changed while it ran."""
    guests: list[list[GuestRecord]] = []
    for record in records:
        if record.goes_on and guests:
            guests[-1].append(record)
        else:
            guests.append([record])
    return guests
