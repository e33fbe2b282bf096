"""Guests of VMs: in history records, and on hosts that failed."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from merkatd.cluster import HostState, Ints
from merkatd.cluster.columns import is_one_of
from merkatd.scheduler.base.ports import GuestRecord

Start = tuple[int, int, bool]
"""The start of a guest: its owner, the VM's id, and whether the VM never ran before."""


def by_guest(records: Iterable[GuestRecord]) -> list[list[GuestRecord]]:
    """Return the records of each guest, which has several if its VM was changed while it ran."""
    guests: list[list[GuestRecord]] = []
    for record in records:
        if record.goes_on and guests:
            guests[-1].append(record)
        else:
            guests.append([record])
    return guests


class PlacedGuest(NamedTuple):
    """A guest as an observation found it."""

    host: int
    run: int


class LostGuests:
    """The guests of hosts that failed, until they return or their VMs start again.

    If a host lost only its network, its guests return as they were. If it failed itself, they are
    gone, and their owners start their VMs again: that is free once for each failure of the host.
    """

    def __init__(self) -> None:
        self._lost: dict[int, PlacedGuest] = {}
        """By VM id."""
        self._off: frozenset[int] = frozenset()

    @property
    def vms(self) -> frozenset[int]:
        """Return the ids of their VMs."""
        return frozenset(self._lost)

    def note(self, before: Mapping[int, PlacedGuest], hosts: Ints, state: Ints) -> None:
        """Take note of the guests on hosts that failed since the observation before.

        `before` has the guests of that observation by VM id, and `state` the states of `hosts`.
        """
        off = frozenset(hosts[is_one_of(state, [int(HostState.OFF)])].tolist())
        new, self._off = off - self._off, off
        if new:
            self._lost |= {vm: guest for vm, guest in before.items() if guest.host in new}

    def counted(
        self, started: Iterable[Start], now: Mapping[int, PlacedGuest]
    ) -> tuple[list[Start], list[Start]]:
        """Return the guests that started, and those of them that count for their owners.

        A guest that returned as it was did not start. `now` has the present guests by VM id.
        """
        really: list[Start] = []
        counted: list[Start] = []
        for start in started:
            vm = start[1]
            lost = self._lost.get(vm)
            if lost is not None and lost == now.get(vm):
                continue
            really.append(start)
            if lost is None:
                counted.append(start)
            else:
                del self._lost[vm]
        back = [vm for vm, guest in self._lost.items() if self._is_back(guest, now.get(vm))]
        for vm in back:
            del self._lost[vm]
        return really, counted

    def _is_back(self, lost: PlacedGuest, now: PlacedGuest | None) -> bool:
        return lost == now and lost.host not in self._off
