"""Events by time: batches of rows to which the same happens at the same moment."""

import heapq
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

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

    def take_one(self) -> int:
        """Return the next row, and go on to the one after."""
        self.at += 1
        return self.rows[self.at - 1]


_Entry = tuple[float, int, int, "Sequence[int] | _Prepared", "Sequence[int]"]


class EventQueue:
    """The events to come."""

    def __init__(self) -> None:
        self._heap: list[_Entry] = []
        self._serial = 0

    def __bool__(self) -> bool:
        return bool(self._heap)

    @property
    def next_s(self) -> float:
        """Return the time of the next event; infinite without any."""
        return self._heap[0][0] if self._heap else np.inf

    def prepare(self, kind: EventKind, times: Floats, rows: Ints) -> None:
        """Add many events of a kind at once, in any order; none of them can be taken back."""
        if len(times):
            self._put(kind, _Prepared(times, rows))

    def push(self, kind: EventKind, times: Floats, rows: Ints, turns: Ints) -> None:
        """Add an event for each row. Those at infinite times never happen."""
        at: list[float] = times.tolist()
        if not at:
            return
        if at[0] == at[-1] and (len(at) == 1 or (times == times[0]).all()):
            if at[0] != np.inf:
                self._push(at[0], kind, rows.tolist(), turns.tolist())
            return
        for time_s, row, turn in zip(at, rows.tolist(), turns.tolist(), strict=True):
            if time_s != np.inf:
                self._push(time_s, kind, (row,), (turn,))

    def pop(self) -> EventBatch:
        """Take all events of the next moment and kind; raise IndexError without any."""
        at_s, kind = self._heap[0][:2]
        rows, turns = list[int](), list[int]()
        while self._heap and self._heap[0][0] == at_s and self._heap[0][1] == kind:
            _, _, _, entry, expected = heapq.heappop(self._heap)
            if isinstance(entry, _Prepared):
                taken = entry.take()
                rows += taken
                turns += [0] * len(taken)
                if not entry.over:
                    self._put(EventKind(kind), entry)
            else:
                rows += entry
                turns += expected
        return EventBatch(
            at_s,
            EventKind(kind),
            np.array(rows, dtype=np.int64),
            np.array(turns, dtype=np.int64),
        )

    def add(self, kind: EventKind, at_s: float, row: int, turn: int = 0) -> None:
        """Add an event for one row."""
        self._serial += 1
        heapq.heappush(self._heap, (at_s, kind, self._serial, (row,), (turn,)))

    def take_one(self) -> SingleEvent:
        """Take the next event of one row; raise IndexError without any.

        Code that handles row after row needs no arrays, and so less time for each event.
        """
        at_s, kind, serial, entry, turns = heapq.heappop(self._heap)
        if isinstance(entry, _Prepared):
            row = entry.take_one()
            if not entry.over:
                heapq.heappush(self._heap, (entry.next_s, kind, serial, entry, ()))
            return SingleEvent(at_s, kind, row, 0)
        if len(entry) > 1:
            heapq.heappush(self._heap, (at_s, kind, serial, entry[1:], turns[1:]))
        return SingleEvent(at_s, kind, entry[0], turns[0])

    def _put(self, kind: EventKind, prepared: _Prepared) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (prepared.next_s, int(kind), self._serial, prepared, ()))

    def _push(
        self, at_s: float, kind: EventKind, rows: Sequence[int], turns: Sequence[int]
    ) -> None:
        self._serial += 1
        heapq.heappush(self._heap, (at_s, int(kind), self._serial, rows, turns))
