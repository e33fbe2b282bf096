"""Days and months of the accounts: UTC, counted from the epoch."""

from dataclasses import dataclass
from datetime import UTC, datetime

DAY_S = 86_400


def day_of(at_s: float) -> int:
    """The number of the day."""
    return int(at_s // DAY_S)


@dataclass(frozen=True, slots=True, order=True)
class Month:
    """A calendar month."""

    year: int
    month: int

    def __post_init__(self) -> None:
        if not (1970 <= self.year <= 9998 and 1 <= self.month <= 12):
            raise ValueError(f"{self.year}-{self.month}: a month like 2026-05 is right")

    @property
    def next(self) -> "Month":
        """The month after."""
        return Month(self.year + self.month // 12, self.month % 12 + 1)

    @property
    def begin_s(self) -> float:
        """When it begins."""
        return datetime(self.year, self.month, 1, tzinfo=UTC).timestamp()

    @property
    def end_s(self) -> float:
        """When the next one begins."""
        return self.next.begin_s

    def __str__(self) -> str:
        return f"{self.year:04}-{self.month:02}"


def month_of(at_s: float) -> Month:
    """The month of a time."""
    then = datetime.fromtimestamp(at_s, tz=UTC)
    return Month(then.year, then.month)


def parse_month(text: str) -> Month:
    """The month that `2026-05` means; ValueError where it means none."""
    year, dash, month = text.partition("-")
    if not (dash and year.isascii() and year.isdigit() and month.isascii() and month.isdigit()):
        raise ValueError(f"{text!r}: a month like 2026-05 is right")
    if len(year) > 4 or len(month) > 2:
        raise ValueError(f"{text!r}: a month like 2026-05 is right")
    return Month(int(year), int(month))
