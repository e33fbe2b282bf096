"""Warnings ahead: how long credits last at the present cost, in words that seldom change."""

import math

STAGES_S = (3600.0, 6 * 3600.0, 24 * 3600.0)
"""Somebody is warned when their credits last for less than so long, and again at each stage."""


def time_until_empty(balance: int, cost: float, period_s: float) -> float:
    """Seconds that a balance lasts at so many micro-credits a period; infinite at no cost."""
    return balance / cost * period_s if cost > 0 else math.inf


def stage(left_s: float) -> float | None:
    """The stage that is reached: the same until the next one is, so that nobody is told twice."""
    return next((limit for limit in STAGES_S if left_s < limit), None)


def words(limit_s: float) -> str:
    """What an owner is told at a stage."""
    hours = round(limit_s / 3600)
    return f"credits last for less than {hours} {'hour' if hours == 1 else 'hours'} at this cost"
