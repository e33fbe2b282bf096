"""A whole amount divided in proportion, to the micro-credit and the same way every time."""

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)


def rounded_down(total: int, weights: Mapping[Key, float]) -> dict[Key, int]:
    """Total x weight / sum of weights, each rounded down; the remainder belongs to nobody.

    Nobody's part falls when their own weight rises, which dealing out the remainder could
    not promise.
    """
    exact = {key: Fraction(weight) for key, weight in weights.items()}
    whole = sum(exact.values(), Fraction(0))
    if not whole:
        return dict.fromkeys(weights, 0)
    return {key: int(total * weight / whole) for key, weight in exact.items()}


def dealt_out(total: int, amounts: Sequence[int]) -> list[int]:
    """Total in proportion to the amounts, of which it is at most the sum; all of it.

    Each gets its part rounded down; what is left goes one by one to those that lost most by
    rounding, the first among equals. Nobody gets more than their amount.
    """
    whole = sum(amounts)
    if not 0 <= total <= whole:
        raise ValueError(f"{total} can't be dealt out among amounts that sum to {whole}")
    if total == whole:
        return list(amounts)
    parts = [divmod(total * amount, whole) for amount in amounts]
    found = [part for part, _ in parts]
    by_loss = sorted(range(len(parts)), key=lambda at: (-parts[at][1], at))
    for at in by_loss[: total - sum(found)]:
        found[at] += 1
    return found
