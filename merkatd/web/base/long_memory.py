"""The ranges of charts, and the memory of spaced periods for the long ones.

# Note [Ranges of charts]
A chart of a month can't have all periods: the memory keeps the newest 360. So each long range keeps
the first record of each slot of time. Example: a slot of the range of a day is a quarter of an
hour; of periods that start at 12:00, 12:10, 12:20 and 12:40 the range keeps those of 12:00, 12:20
and 12:40. A chart of a day shows these records and the newest period. After a start of the daemon,
the records before it are read from the database.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from merkatd.web.base.period_memory import Past, PeriodRecord

_HOUR_S, _DAY_S = 3_600.0, 86_400.0
MOST_SPACED_ROWS = 250_000
"""The most rows (VMs) of all records of a range together."""


@dataclass(frozen=True, slots=True)
class ChartRange:
    """The time that charts show."""

    name: str
    span_s: float
    slot_s: int
    """The length of a slot of time, of which charts show one period."""

    def slot(self, at_s: float) -> int:
        """Return the number of the slot of a time."""
        return int(at_s // self.slot_s)


HOUR = ChartRange("hour", _HOUR_S, 30)
DAY = ChartRange("day", _DAY_S, 900)
MONTH = ChartRange("month", 30 * _DAY_S, 21_600)
RANGES: Mapping[str, ChartRange] = {each.name: each for each in (HOUR, DAY, MONTH)}


class SpacedRecords:
    """The records of a long range, the oldest first."""

    def __init__(self, range_: ChartRange, rows: int = MOST_SPACED_ROWS) -> None:
        self.range = range_
        self._most_rows = rows
        self._kept: deque[PeriodRecord] = deque()
        self._rows = 0

    @property
    def records(self) -> Sequence[PeriodRecord]:
        """Return all records."""
        return tuple(self._kept)

    def add(self, record: PeriodRecord) -> None:
        """Add the newest record if it is the first of its slot; remove those that are too old.

        Records of a later time are from before the clock was set back, and are removed too.
        """
        while self._kept and self._kept[-1].at_s > record.at_s:
            self._rows -= len(self._kept.pop().vm)
        slot = self.range.slot(record.at_s)
        if self._kept and slot <= self.range.slot(self._kept[-1].at_s):
            return
        self._kept.append(record)
        self._rows += len(record.vm)
        while len(self._kept) > 1 and self._full(record.at_s):
            self._rows -= len(self._kept.popleft().vm)

    def put_before(self, record: PeriodRecord) -> bool:
        """Add a record older than all others if there is room; return whether there was."""
        if self._rows + len(record.vm) > self._most_rows:
            return False
        newest_s = self._kept[-1].at_s if self._kept else record.at_s
        if newest_s - record.at_s > self.range.span_s:
            return False
        self._kept.appendleft(record)
        self._rows += len(record.vm)
        return True

    def _full(self, now_s: float) -> bool:
        return self._rows > self._most_rows or now_s - self._kept[0].at_s > self.range.span_s


class LongPast(Past):
    """The records of the newest periods, and those of the long ranges."""

    def __init__(self) -> None:
        super().__init__()
        self.spaced = {range_.name: SpacedRecords(range_) for range_ in (DAY, MONTH)}

    def add(self, moment: PeriodRecord) -> None:
        """Add the newest record."""
        super().add(moment)
        for spaced in self.spaced.values():
            spaced.add(moment)

    def over(self, range_: str, period: int) -> Sequence[PeriodRecord]:
        """Return the records of a range that ends with this period, with that of the period."""
        chosen, newest = RANGES.get(range_), self.until(period)
        if chosen is None or not newest:
            return newest
        since_s = newest[-1].at_s - chosen.span_s
        spaced = self.spaced.get(range_)
        if spaced is None:
            return [record for record in newest if record.at_s >= since_s]
        records = [record for record in spaced.records if record.at_s >= since_s]
        return [*(record for record in records if record.at_s < newest[-1].at_s), newest[-1]]
