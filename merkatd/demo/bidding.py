"""How each kind of tenant bids: pure, from how far its application has come and how late it is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

MOST_TIMES = 12.0
"""So many times its first bid a tenant bids at most,"""
LEAST_PART = 0.25
"""and this part of it at least."""


class Character(StrEnum):
    """What a tenant is like."""

    PATIENT = "patient"
    """Bids little, and never anything else."""
    THRIFTY = "thrifty"
    """Bids less as soon as it is ahead, more as soon as it is not."""
    URGENT = "urgent"
    """Raises its bid the moment it falls behind."""
    RICH = "rich"
    """Bids a lot from the first."""
    LATE = "late"
    """Bids almost nothing until the deadline is near, then whatever it takes."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How an application stands."""

    done: float
    """The part of the work that is done,"""
    passed: float
    """and the part of the time that has passed."""

    @property
    def behind(self) -> bool:
        """Whether going on like this would miss the deadline."""
        return self.done < self.passed - 0.03


def next_bid(character: Character, first: float, bid: float, pace: Pace) -> float:
    """What to bid from now on."""
    wanted = _RULES[character](bid, pace)
    return rounded(min(max(wanted, first * LEAST_PART), first * MOST_TIMES))


def rounded(bid: float) -> float:
    """The bid in the two digits that a person would write."""
    return float(f"{bid:.2g}")


def _unmoved(bid: float, _pace: Pace) -> float:
    return bid


def _thrifty(bid: float, pace: Pace) -> float:
    if pace.behind:
        return bid * 1.3
    return bid * 0.8 if pace.done > pace.passed + 0.08 else bid


def _urgent(bid: float, pace: Pace) -> float:
    if pace.behind:
        return bid * 1.6
    return bid * 0.9 if pace.done > pace.passed + 0.25 else bid


def _late(bid: float, pace: Pace) -> float:
    return bid * 2.0 if pace.behind and pace.passed > 0.55 else bid


_RULES: Mapping[Character, Callable[[float, Pace], float]] = MappingProxyType(
    {
        Character.PATIENT: _unmoved,
        Character.THRIFTY: _thrifty,
        Character.URGENT: _urgent,
        Character.RICH: _unmoved,
        Character.LATE: _late,
    }
)
