"""Tenants who track an allocation rather than a pace (section 4.1): what is enough, what lacks."""

from collections.abc import Mapping
from math import inf
from typing import Any, Final

from controllers.parameters import number
from controllers.policies.deadline import HIGH, LOW
from controllers.policies.vertical import Performance

LEAST_PART: Final = 0.3
"""Of what its VMs can use: with less it is not worth while to run."""
KINDS: Final = frozenset({"partial_deadline", "full_performance"})
"""The controllers of such tenants."""


def least_part(kind: str, parameters: Mapping[str, Any]) -> float | None:
    """Return the part that a kind of controller can't do without; None where it tracks a pace."""
    return number(parameters, "least_part") if kind in KINDS else None


def lacking(held: float) -> Performance:
    """The time that work takes with a part of an allocation, where all of it is wanted.

    Never fast: with all of it the bids only fall to what keeps it.
    """
    value = 1.0 / held if held > 0 else inf
    return Performance(value=value, reference=1.0, low=LOW, high=HIGH)


def worthwhile(held: float) -> Performance:
    """While nothing is known but what is held: less than the least part is doubled, with care."""
    value = (LOW + HIGH) / 2 if held >= LEAST_PART else 2.0
    return Performance(value=value, reference=1.0, low=LOW, high=HIGH)
