"""Defaults and bounds of the numbers in the parameters of controllers and monitors.

A tenant writes these parameters. The daemon rejects a template with a number out of bounds. If a
stored template has such a number, the nearest bound applies.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

_DAY_S: Final = 86_400.0
_COUNT: Final = 1_000


@dataclass(frozen=True, slots=True)
class NumberBounds:
    """The default and the bounds of a parameter."""

    usual: float
    least: float
    most: float
    whole: bool = False

    def says(self, value: Any) -> str | None:
        """Return None for a valid value, otherwise a clause that names the accepted values."""
        number = _number(value)
        fits = number is not None and self.least <= number <= self.most
        if fits and not (self.whole and number != int(number or 0)):
            return None
        kind = "a whole number" if self.whole else "a number"
        return f"must be {kind} between {self.least:g} and {self.most:g}"

    def bounded(self, value: Any) -> float:
        """Return the value, the nearest bound, or the default if the value is not a number."""
        number = _number(value)
        if number is None:
            return self.usual
        return min(max(number, self.least), self.most)


NUMBERS: Final[Mapping[str, NumberBounds]] = {
    "every_s": NumberBounds(20.0, 1.0, _DAY_S),
    "boot_limit_s": NumberBounds(300.0, 10.0, 30 * _DAY_S),
    "off_limit_s": NumberBounds(60.0, 0.0, 30 * _DAY_S),
    "unknown_limit_s": NumberBounds(900.0, 0.0, 30 * _DAY_S),
    "horizon_s": NumberBounds(_DAY_S, 60.0, 3_660 * _DAY_S),
    "window_s": NumberBounds(60.0, 1.0, 3_600.0),
    "target_s": NumberBounds(60.0, 1.0, 366 * _DAY_S),
    "drain_limit_s": NumberBounds(600.0, 0.0, 30 * _DAY_S),
    "grow_cooldown_s": NumberBounds(0.0, 0.0, 30 * _DAY_S),
    "shrink_cooldown_s": NumberBounds(0.0, 0.0, 30 * _DAY_S),
    "slots": NumberBounds(1, 1, 10_000, whole=True),
    "growth": NumberBounds(2, 1, _COUNT, whole=True),
    "patience": NumberBounds(3, 0, _COUNT, whole=True),
    "steps": NumberBounds(1, 1, 1e12),
    "least_part": NumberBounds(0.3, 0.0, 1.0),
    "port": NumberBounds(22, 1, 65_535, whole=True),
}
"""Bounds by parameter name. A name means the same in all kinds that come with Merkat."""


OF_EVERY_MONITOR: Final = frozenset({"every_s", "boot_limit_s"})
"""Parameters of every monitor, also of a site's own monitors."""


def number(parameters: Mapping[str, Any], name: str) -> float:
    """Return a parameter within its bounds, or its default if it is missing or not a number."""
    return NUMBERS[name].bounded(parameters.get(name))


def whole(parameters: Mapping[str, Any], name: str) -> int:
    """Return a parameter within its bounds as a whole number."""
    return int(number(parameters, name))


def problems(
    parameters: Mapping[str, Any], names: Collection[str] = NUMBERS.keys()
) -> Iterator[str]:
    """Yield an error for each of these numbers that is out of its bounds."""
    for name, known in NUMBERS.items():
        if name in names and name in parameters:
            accepted = known.says(parameters[name])
            if accepted is not None:
                yield f"{name} {accepted} (got {_short(parameters[name])})"


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        converted = float(value)
    except OverflowError:
        return None
    return converted if isfinite(converted) else None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
