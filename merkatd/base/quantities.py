"""Quantities as text: numbers with units, times, durations and credits, parsed and formatted.

Input is checked against these bounds where it enters. A value that was stored before its bound
existed is moved to the nearest bound when it is read, so that no single row breaks a page or a
list.

In the code, the name of a setting ends with its unit (`interval_s`, `margin_mib`). In the
configuration, the value contains the unit.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from math import isnan
from types import MappingProxyType
from typing import Any, Final

SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
"""The length of each unit that a duration may have in texts."""
LONGEST_S: Final = 3_650 * 86_400.0
"""Ten years: the longest accepted duration."""
EARLIEST_S: Final = 0.0
LATEST_S: Final = 4_102_444_800.0
"""The beginning of the year 2100: the latest accepted moment."""
UNITS_IN_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cpu": "% of CPU",
        "memory": "MiB of memory",
        "network": "Mbit/s of network",
        "disk": "MiB/s of disk",
    }
)
"""The units and names of resources in a sentence; other resources appear by their key."""


class OutOfBoundsError(ValueError):
    """A duration or moment is out of its bounds."""

    def __init__(self, message: str, nearest: str | datetime) -> None:
        """`nearest` is the nearest bound, in the form in which the value was written."""
        super().__init__(message)
        self.nearest = nearest


def checked_duration(seconds: float) -> float:
    """Return the duration. Raise OutOfBoundsError if it is not from 0 s to ten years."""
    if 0 <= seconds <= LONGEST_S:
        return seconds
    most = f"{LONGEST_S / 86_400:.0f}d"
    raise OutOfBoundsError(f"must be at most {most}", most if seconds > 0 else "0s")


def checked_moment(at: datetime) -> float:
    """Return the moment in seconds. Raise OutOfBoundsError if it is not from 1970 to 2099."""
    at_s = at.timestamp()
    if EARLIEST_S <= at_s <= LATEST_S:
        return at_s
    raise OutOfBoundsError("must be a time from the years 1970 to 2099", utc(at_s))


def bounded(at_s: float) -> float:
    """Return the moment, or the nearest bound; the latest moment for NaN."""
    return LATEST_S if isnan(at_s) else min(max(at_s, EARLIEST_S), LATEST_S)


def bounded_or_none(at_s: float | None) -> float | None:
    """Return the moment within its bounds, or None if there is none."""
    return None if at_s is None else bounded(at_s)


def utc(at_s: float) -> datetime:
    """Return the moment within its bounds as a date and time in UTC; never fails."""
    return datetime.fromtimestamp(bounded(at_s), UTC)


def utc_text(seconds: float) -> str:
    """Return a moment in the form of the templates."""
    return utc(round(bounded(seconds))).strftime("%Y-%m-%dT%H:%M:%SZ")


_STEPS_S = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
_FEW = 10
"""Below so many of its largest unit, a duration also has the next unit."""


def duration_text(seconds: float) -> str:
    """Return a duration for people, for example 2 h 5 min, 14 s or 0.25 s, without its sign."""
    left = bounded(abs(seconds))
    if float(f"{left:.3g}") < 60:
        return f"{left:.3g} s"
    left = float(round(left))
    at = next(at for at, (size, _) in enumerate(_STEPS_S) if left >= size)
    size, unit = _STEPS_S[at]
    count = int(left // size)
    smaller, small_unit = _STEPS_S[at + 1]
    rest = int((left - count * size) // smaller)
    more = f" {rest} {small_unit}" if rest and count < _FEW else ""
    return f"{count} {unit}{more}"


def amount_text(amount: float) -> str:
    """Return a number that is no amount of credits, with up to six significant digits."""
    return f"{amount:.6g}"


def plain_text(bound: float) -> str:
    """Return a bound of an input in full and without an exponent, as people would write it."""
    return format(Decimal(repr(bound)).normalize(), "f")


def quoted_value(value: object) -> str:
    """Return a value for a message: short, and on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def finite(value: float) -> float | None:
    """Return None for infinity and NaN, which JSON lacks, otherwise the value."""
    return float(value) if math.isfinite(value) else None


_QUANTITY = re.compile(
    r"(?P<number>[0-9]{1,30}(\.[0-9]{1,30})?(e[+-]?[0-9]{1,3})?) ?(?P<unit>[A-Za-z%/]+)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A kind of quantity and its units."""

    what: str
    """The name of the kind."""
    units: Mapping[str, Fraction]
    """The size of each unit in the unit of the code, from the smallest to the largest."""
    own: str
    """The unit for a value that is no whole number of any unit."""
    suffix: str
    """The end of the names of its settings in the code."""
    in_key: bool = False
    """Whether the key in the file has the suffix too."""
    example: str = ""
    """A valid quantity, for error texts."""

    def read(self, text: str) -> Fraction:
        """Return the quantity in the code's unit. Raise ValueError with the accepted units."""
        match = _QUANTITY.fullmatch(text.strip())
        units = ", ".join(self.units)
        if match is None or match["unit"] not in self.units:
            raise ValueError(
                f"is not a {self.what}; write a number and one of {units}, for example"
                f' "{self.example}"'
            )
        return Fraction(match["number"]) * self.units[match["unit"]]

    def write(self, value: float) -> str:
        """Return the shortest text that `read` turns into exactly this value."""
        exact = Fraction(Decimal(repr(value)))
        for name, factor in reversed(list(self.units.items())):
            count = exact / factor
            if count.denominator == 1 and count >= 1:
                return f"{count}{name}"
        number = Decimal(repr(value)).scaleb(2) if self.own == "%" else Decimal(repr(value))
        return f"{number.normalize()}{self.own}".replace("E", "e") if number else f"0{self.own}"


def _powers(names: str, step: int, first: Fraction) -> dict[str, Fraction]:
    return {name: first * step**power for power, name in enumerate(names.split())}


_SECONDS: Final = {
    "us": Fraction(1, 1_000_000),
    "ms": Fraction(1, 1_000),
    **{name: Fraction(length) for name, length in SECONDS.items()},
}
UNITS: Final = (
    Unit(
        "bandwidth",
        _powers("kbit/s Mbit/s Gbit/s", 1000, Fraction(1, 1000)),
        "Mbit/s",
        "_mbit_s",
        example="1Gbit/s",
    ),
    Unit(
        "speed",
        _powers("KiB/s MiB/s GiB/s", 1024, Fraction(1, 1024)),
        "MiB/s",
        "_mib_s",
        example="170MiB/s",
    ),
    Unit(
        "size",
        _powers("KiB MiB GiB TiB", 1024, Fraction(1, 1024)),
        "MiB",
        "_mib",
        example="2GiB",
    ),
    Unit(
        "duration",
        {name: seconds * 1_000_000 for name, seconds in _SECONDS.items()},
        "us",
        "_us",
        example="100ms",
    ),
    Unit("duration", _SECONDS, "s", "_s", example="60s"),
    Unit("part", {"%": Fraction(1, 100)}, "%", "_part", in_key=True, example="10%"),
)


def unit_of(name: str) -> Unit | None:
    """Return the kind of quantity of the setting of this name, or None for a plain value."""
    return next((unit for unit in UNITS if name.endswith(unit.suffix)), None)


def key_of(name: str) -> str:
    """Return the key in the file of the setting of this name."""
    unit = unit_of(name)
    return name if unit is None or unit.in_key else name.removesuffix(unit.suffix)


_THOUSAND = 1000
_NOTHING = 1e-7


def credits_text(value: Any) -> str:
    """Return credits for people: four significant digits, whole numbers from 1000 up.

    There is never an exponent. Less than a tenth of a micro-credit, the unit of accounts, is 0.
    """
    if abs(value) < _NOTHING:
        return "0"
    short = f"{value:.4g}"
    if abs(float(short)) >= _THOUSAND:
        return f"{value:,.0f}"
    return format(Decimal(short), "f") if "e" in short else short


def exact_credits_text(value: float) -> str:
    """Return credits for people to the last micro-credit, for amounts that people enter again."""
    whole, _, part = f"{value:,.6f}".partition(".")
    return f"{whole}.{part}".rstrip("0").rstrip(".")


def time_text(value: Any) -> str:
    """Return a time for people: the date, the local time, and its zone."""
    return utc(value).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def resource_amount(resource: str, value: float) -> str:
    """Return an amount with its unit: 150 % of CPU, 2,048 MiB of memory."""
    unit = UNITS_IN_WORDS.get(resource, resource)
    return f"{value:,.1f}".removesuffix(".0") + f" {unit}".rstrip()


def resource_amounts(resources: Iterable[str], values: Iterable[float]) -> str:
    """Return the amounts of several resources: 150 % of CPU and 2,048 MiB of memory."""
    *most, last = map(resource_amount, resources, values)
    return f"{', '.join(most)} and {last}" if most else last
