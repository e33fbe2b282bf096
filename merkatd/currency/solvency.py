"""What a balance allows: bids lowered to it, warnings ahead, arrears.

Arrears count per owner. A VM that is ended and made anew, or paid for by another account of
the same owner, changes nothing about them.
"""

import math
from collections.abc import Collection, Mapping
from math import ceil

import numpy as np

from merkatd.cluster import Floats, Ints

_HALVINGS = 60


def affordable_bids(
    bids: Floats, floors: Floats, prices: Floats, payers: Ints, balances: Floats
) -> Floats:
    """The bids, all of a payer's scaled down alike where they would cost more than it has.

    `bids`, `floors` and `prices` are [vms, resources], each VM with the prices of its market;
    `payers` are rows of `balances`, -1 for who needs not pay. A bid costs itself, or the price
    of its floor where that is more. Where the floors alone cost too much, nothing is bid.
    """
    paying = payers >= 0
    least = _least(floors, prices)
    owed = _cost(np.ones(len(balances)), bids, least, payers, balances)
    short = owed > balances
    if not short[payers[paying]].any():
        return bids
    low, high = np.zeros(len(balances)), np.where(short, 1.0, 0.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        fits = _cost(middle, bids, least, payers, balances) <= balances
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    part = np.where(short, low, 1.0)
    return np.where(paying[:, np.newaxis], bids * part[payers][:, np.newaxis], bids)


def costs(bids: Floats, floors: Floats, prices: Floats, payers: Ints, count: int) -> Floats:
    """[payers]: what these bids cost each of so many payers, or their floors where that is more."""
    return _cost(np.ones(count), bids, _least(floors, prices), payers, np.zeros(count))


def _least(floors: Floats, prices: Floats) -> Floats:
    """[vms, resources]: what each floor costs."""
    priced = np.where(np.isfinite(prices), prices, 0.0) * floors
    found: Floats = np.where(floors > 0, priced, 0.0)
    return found


def _cost(part: Floats, bids: Floats, least: Floats, payers: Ints, balances: Floats) -> Floats:
    """[payers]: what a period would cost with this part of every bid."""
    paying = payers >= 0
    rows = payers[paying]
    each = np.maximum(bids[paying] * part[rows][:, np.newaxis], least[paying]).sum(axis=1)
    costs: Floats = np.bincount(rows, each, len(balances)).astype(float)
    return costs


PATIENCE = 10
"""Intervals that an owner may leave charges unpaid. Periods that begin early are parts of one."""
_NEARLY = 0.25
"""Intervals. No two are equally long: those before patience ends need not be whole."""


def arrears_after(
    before: Mapping[int, float],
    short: Collection[int],
    owing: Collection[int],
    intervals: float = 1.0,
) -> dict[int, float]:
    """By owner: for how many intervals it has not paid in full.

    `short` are the owners that could not pay for this period, which was so many `intervals` long,
    and `owing` all that are in debt now.
    An owner out of debt starts anew. One that still owes, and ran nothing, stays where it was:
    suspending and resuming a VM settles nothing.
    """
    return {
        owner: before.get(owner, 0.0) + (intervals if owner in short else 0.0) for owner in owing
    }


def due_for_suspension(counts: Mapping[int, float], patience: int = PATIENCE) -> frozenset[int]:
    """The owners that have not paid for long enough."""
    return frozenset(owner for owner, count in counts.items() if _over(count, patience))


def _over(count: float, patience: int) -> bool:
    return count >= patience - _NEARLY


def warning(count: float, debt: float, patience: int = PATIENCE) -> str:
    """What the owner reads at each of its running VMs; `debt` is in credits."""
    owes = f"its owner owes {debt:g} credits for earlier periods"
    if _over(count, patience):
        return (
            f"suspended: {owes}, and has not paid in full for {count:.0f} periods;"
            " resume it once the debt is paid"
        )
    left = ceil(patience - _NEARLY - count)
    periods = "period" if left == 1 else "periods"
    return f"{owes}: VMs are suspended in {left} {periods} unless they are paid"


def gives_back(debt: float) -> str:
    """Why a VM is stopped that is off, or that its owner started; `debt` is in credits."""
    return (
        f"gives its host back: its owner owes {debt:g} credits for earlier periods;"
        " resume it once the debt is paid, then it is placed"
    )


def refusal(debt: float) -> str:
    """Why no new VM of the owner is placed; `debt` is in credits."""
    return (
        f"not placed: its owner owes {debt:g} credits for earlier periods;"
        " new VMs are placed once the debt is paid"
    )


STAGES_S = (3600.0, 6 * 3600.0, 24 * 3600.0)
"""Somebody is warned when their credits last for less than so long, and again at each stage."""


def time_until_empty(balance: int, cost: float, period_s: float) -> float:
    """Seconds that a balance lasts at so many micro-credits a period; infinite at no cost."""
    return balance / cost * period_s if cost > 0 else math.inf


def warning_stage(left_s: float) -> float | None:
    """The stage that is reached: the same until the next one is, so that nobody is told twice."""
    return next((limit for limit in STAGES_S if left_s < limit), None)


def warning_text(limit_s: float) -> str:
    """What an owner is told at a stage."""
    hours = round(limit_s / 3600)
    return f"credits last for less than {hours} {'hour' if hours == 1 else 'hours'} at this cost"
