"""Events by time: batches of rows to which the same happens at the same moment."""

import heapq
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np

from merkatd.cluster import Floats, Ints


class EventKind(IntEnum):
    """What happens. Of events at the same time, those with the lower number come first.

    Room becomes free before anything asks for it, and a period sees all that happened before.
    """

    UNIT_REPAIRED = 0
    VM_ENDS = 1
    OPERATION_ENDS = 2
    HOST_WOKEN = 3
    UNIT_FAILS = 4
    VM_ARRIVES = 5
    PATIENCE_ENDS = 6
    MONITORING = 7
    PERIOD = 8
    CALL = 9
    """A call of other code at a time that it chose; see `VirtualClock`."""


class EventBatch(NamedTuple):
    """The same event for several rows."""

    at_s: float
    kind: EventKind
    rows: Ints
    """The VMs, hosts or units that it concerns."""
    turns: Ints
    """The turn in which each row's event was expected; see `KernelState.turn`."""


class SingleEvent(NamedTuple):
    """An event for one row."""

    at_s: float
    kind: int
    row: int
    turn: int


class _Prepared:
    """Events that are known before the run, in order of time."""

    def __init__(self, times: Floats, rows: Ints) -> None:
        order = np.argsort(times, kind="stable")
        self.times: list[float] = times[order].tolist()
        self.rows: list[int] = rows[order].tolist()
        self.at = 0

    @property
    def next_s(self) -> float:
        return self.times[self.at]

    @property
    def over(self) -> bool:
        return self.at >= len(self.times)

    def take(self) -> list[int]:
        """Return the rows of the next moment, and go on to the moment after."""
        begin, next_s = self.at, self.times[self.at]
        self.at += 1
        while self.at < len(self.times) and self.times[self.at] == next_s:
            self.at += 1
        return self.rows[begin : self.at]


_Entry = tuple[float, int, int, Any, Any]
"""Time, kind, serial number, and a row with its turn or several rows with theirs."""
_KnownEntry = tuple[float, int, int, Any]
"""The time and kind of the next of some prepared events, a serial number, and the events."""
_FIRST: Final = -(2**62)
"""Of the same moment and kind, events that are known before the run come first."""


class EventQueue:
    """The events to come."""

    def __init__(self) -> None:
        self._heap: list[_Entry] = []
        self._prepared: list[_KnownEntry] = []
        """The next events of those that are known before the run, as a heap."""
        self._serial = 0

    def __bool__(self) -> bool:
        return bool(self._heap or self._prepared)

    @property
    def next_s(self) -> float:
        """Return the time of the next event; infinite without any."""
        next_s = self._heap[0][0] if self._heap else np.inf
        if self._prepared and self._prepared[0][0] < next_s:
            return self._prepared[0][0]
        return next_s

    def prepare(self, kind: EventKind, times: Floats, rows: Ints) -> None:
        """Add many events of a kind at once, in any order; none of them can be taken back."""
        if len(times):
            prepared = _Prepared(times, rows)
            self._serial += 1
            serial = self._serial + _FIRST
            heapq.heappush(self._prepared, (prepared.next_s, int(kind), serial, prepared))

    def push(self, kind: EventKind, times: Floats, rows: Ints, turns: Ints) -> None:
        """Add an event for each row. Those at infinite times never happen."""
        at: list[float] = times.tolist()
        if not at:
            return
        if len(at) > 1 and at[0] == at[-1] and (times == times[0]).all():
            if at[0] != np.inf:
                self._push(at[0], kind, rows.tolist(), turns.tolist())
            return
        for time_s, row, turn in zip(at, rows.tolist(), turns.tolist(), strict=True):
            if time_s != np.inf:
                self._push(time_s, kind, row, turn)

    def pop(self) -> EventBatch:
        """Take all events of the next moment and kind; raise IndexError without any."""
        heap, prepared = self._heap, self._prepared
        first = prepared[0] if prepared and (not heap or prepared[0] < heap[0]) else heap[0]
        at_s, kind = first[0], first[1]
        rows, turns = list[int](), list[int]()
        while prepared and prepared[0][0] == at_s and prepared[0][1] == kind:
            _, _, serial, events = heapq.heappop(prepared)
            taken = events.take()
            rows += taken
            turns += [0] * len(taken)
            if not events.over:
                heapq.heappush(prepared, (events.next_s, kind, serial, events))
        while heap and heap[0][0] == at_s and heap[0][1] == kind:
            _, _, _, entry, expected = heapq.heappop(heap)
            if isinstance(entry, int):
                rows.append(entry)
                turns.append(expected)
            else:
                rows += entry
                turns += expected
        return EventBatch(
            at_s,
            EventKind(kind),
            np.array(rows, dtype=np.int64),
            np.array(turns, dtype=np.int64),
        )

    def add(self, kind: int, at_s: float, row: int, turn: int = 0) -> None:
        """Add an event for one row."""
        self._serial = serial = self._serial + 1
        heapq.heappush(self._heap, (at_s, kind, serial, row, turn))

    def take_one(self) -> SingleEvent:
        """Take the next event of one row; raise IndexError without any."""
        for event in self.one_by_one():
            return SingleEvent(*event)
        raise IndexError("no events are left")

    def one_by_one(self) -> Iterator[tuple[float, int, int, int]]:
        """Take the events one by one until there are none, each as the fields of `SingleEvent`.

        Events may be added meanwhile. Code that handles row after row needs no arrays, and so less
        time for each event.
        """
        heap, prepared = self._heap, self._prepared
        while heap or prepared:
            if prepared and (not heap or prepared[0] < heap[0]):
                at_s, kind, serial, events = prepared[0]
                at = events.at
                events.at = after = at + 1
                if after < len(events.times):
                    heapq.heapreplace(prepared, (events.times[after], kind, serial, events))
                else:
                    heapq.heappop(prepared)
                yield at_s, kind, events.rows[at], 0
                continue
            at_s, kind, serial, entry, turns = heapq.heappop(heap)
            if isinstance(entry, int):
                yield at_s, kind, entry, turns
                continue
            if len(entry) > 1:
                heapq.heappush(heap, (at_s, kind, serial, entry[1:], turns[1:]))
            yield at_s, kind, entry[0], turns[0]

    def _push(
        self,
        at_s: float,
        kind: EventKind,
        rows: int | list[int],
        turns: int | list[int],
    ) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (at_s, int(kind), self._serial, rows, turns))
