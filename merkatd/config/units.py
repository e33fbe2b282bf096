"""Quantities with their units: how "60s", "2GiB" and "10%" are read and written.

What a setting is measured in is the end of its name in the code (`interval_s`,
`margin_mib`); in the configuration the value itself says it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

_QUANTITY = re.compile(
    r"(?P<number>[0-9]{1,30}(\.[0-9]{1,30})?(e[+-]?[0-9]{1,3})?) ?(?P<unit>[A-Za-z%/]+)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A kind of quantity: its units, each in terms of what the code counts in."""

    what: str
    units: Mapping[str, Fraction]
    """From the smallest to the largest."""
    own: str
    """The unit for what is no whole number of any other."""
    suffix: str
    """The end of the names of its settings,"""
    in_key: bool = False
    """and whether that is part of the key in the file too."""
    example: str = ""

    def read(self, text: str) -> Fraction:
        """The quantity in the code's own unit; ValueError says what would be right."""
        match = _QUANTITY.fullmatch(text.strip())
        units = ", ".join(self.units)
        if match is None or match["unit"] not in self.units:
            raise ValueError(
                f"is no {self.what}; write a number and one of {units}, for example"
                f' "{self.example}"'
            )
        return Fraction(match["number"]) * self.units[match["unit"]]

    def write(self, value: float) -> str:
        """The shortest text that is read as exactly this value again."""
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
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3_600),
    "d": Fraction(86_400),
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
    """What the setting of this name is measured in; None where it is a plain value."""
    return next((unit for unit in UNITS if name.endswith(unit.suffix)), None)


def key_of(name: str) -> str:
    """The key in the file of the setting of this name."""
    unit = unit_of(name)
    return name if unit is None or unit.in_key else name.removesuffix(unit.suffix)
