"""What a price will be: its history, smoothed, with a trend that soon runs out.

Holt's method with a damped trend: a level and a slope are moved toward each new price, and the
slope counts less with each period ahead, so that a rise is carried on for a while and not for
ever. `score` compares a forecast with the naive one, that the last price stays; a controller
that finds the naive one no worse on its own history takes that (`best`). Pure.
"""

from collections.abc import Callable, Sequence
from math import inf

LEVEL, SLOPE, DAMPING = 0.6, 0.2, 0.8
"""How far the level and the slope follow a new price, and what remains of the slope each period."""
LEAST_HISTORY = 8
"""With fewer prices there is nothing to choose by."""
JUDGED = 10
"""A choice is made on so many forecasts at most: what was long ago says little."""

Forecast = Callable[[Sequence[float], int], float]
"""From the prices of the past, oldest first: the price so many periods ahead."""


def naive(prices: Sequence[float], _ahead: int) -> float:
    """The last price stays."""
    return prices[-1]


def smoothed(prices: Sequence[float], ahead: int) -> float:
    """Level and damped trend; never below 0."""
    level, slope = prices[0], 0.0
    for price in prices[1:]:
        expected = level + DAMPING * slope
        before, level = level, expected + LEVEL * (price - expected)
        slope = DAMPING * slope + SLOPE * ((level - before) - DAMPING * slope)
    reach = DAMPING * (1 - DAMPING**ahead) / (1 - DAMPING)
    return max(0.0, level + slope * reach)


def error(forecast: Forecast, prices: Sequence[float], ahead: int, first: int = 2) -> float:
    """The mean distance between what was forecast and what came; infinite with nothing to judge."""
    judged = range(first, len(prices) - ahead + 1)
    if not judged:
        return inf
    missed = [abs(forecast(prices[:row], ahead) - prices[row + ahead - 1]) for row in judged]
    return sum(missed) / len(missed)


def score(forecast: Forecast, prices: Sequence[float], ahead: int) -> float:
    """Its error as a part of the naive one's: below 1 it is the better one."""
    by_naive = error(naive, prices, ahead)
    ours = error(forecast, prices, ahead)
    if by_naive == 0.0:
        return 1.0 if ours == 0.0 else inf
    return ours / by_naive


def best(prices: Sequence[float], ahead: int) -> float:
    """What did better on the latest prices says what comes; the naive one where both did alike."""
    if not prices:
        raise ValueError("a forecast needs at least one price")
    if len(prices) < LEAST_HISTORY:
        return naive(prices, ahead)
    first = max(2, len(prices) - ahead - JUDGED + 1)
    better = error(smoothed, prices, ahead, first) < error(naive, prices, ahead, first)
    return (smoothed if better else naive)(prices, ahead)
