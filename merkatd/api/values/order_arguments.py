"""Arguments of administrators' orders, as the services expect them."""

from typing import Any

from merkatd.base.quantities import quoted_value
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.modes import MOST_COMPARISONS


def skipped_steps(given: Any) -> frozenset[int]:
    """Return the numbers of a plan's steps to leave out. Raise InvalidRequestError."""
    fine = isinstance(given, list) and all(type(number) is int for number in given)
    if not fine or len(given) > MOST_COMPARISONS:
        raise InvalidRequestError(
            f"skip: must be a list of steps' numbers (got {quoted_value(given)})"
        )
    return frozenset(given)
