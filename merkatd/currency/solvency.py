"""The effects of a balance: affordable bids, early warnings, arrears.

Arrears count per owner. Terminating and recreating a VM, or paying from another account of the same
owner, does not change them.
"""

import math
from collections.abc import Collection, Mapping
from math import ceil

import numpy as np

from merkatd.base.quantities import credits_text
from merkatd.cluster import Bools, Floats, Ints
from merkatd.cluster.columns import NO_HOST

_HALVINGS = 60


def affordable_bids(
    bids: Floats, floors: Floats, prices: Floats, payers: Ints, balances: Floats
) -> Floats:
    """Return the bids; a payer that can't afford its bids has all of them scaled down alike.

    `bids`, `floors` and `prices` are [vms, resources]; each VM has the prices of its market.
    `payers` are rows of `balances`, -1 for a VM that pays nothing. A bid costs its own amount, or
    the price of its floor if that is more. If the floors alone exceed the balance, the bids are
    zero.
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


def affordable_parts(
    most: Floats,
    floors: Floats,
    prices: Floats,
    payers: Ints,
    balances: Floats,
    runs: Bools,
    waits: Bools,
) -> Floats:
    """Return [vms, 1]: the part of its bids that each VM can pay, those that run first.

    `most` is the highest cost of each bid, and the other arguments are those of `affordable_bids`.
    VMs that neither run nor wait pay nothing.
    """
    running = np.where(runs, payers, NO_HOST)
    lowered = affordable_bids(most, floors, prices, running, balances)
    left = np.maximum(balances - costs(lowered, floors, prices, running, len(balances)), 0.0)
    lowered = affordable_bids(lowered, floors, prices, np.where(waits, payers, NO_HOST), left)
    total = most.sum(axis=1)
    part: Floats = np.divide(lowered.sum(axis=1), total, out=np.ones(len(total)), where=total > 0)
    return part.reshape(-1, 1)


def costs(bids: Floats, floors: Floats, prices: Floats, payers: Ints, count: int) -> Floats:
    """Return [payers]: the cost of these bids, or of their floors where those cost more."""
    return _cost(np.ones(count), bids, _least(floors, prices), payers, np.zeros(count))


def _least(floors: Floats, prices: Floats) -> Floats:
    """Return [vms, resources]: the cost of each floor."""
    priced = np.where(np.isfinite(prices), prices, 0.0) * floors
    least: Floats = np.where(floors > 0, priced, 0.0)
    return least


def _cost(part: Floats, bids: Floats, least: Floats, payers: Ints, balances: Floats) -> Floats:
    """Return [payers]: the cost of a period with this part of every bid."""
    paying = payers >= 0
    rows = payers[paying]
    each = np.maximum(bids[paying] * part[rows][:, np.newaxis], least[paying]).sum(axis=1)
    costs: Floats = np.bincount(rows, each, len(balances)).astype(float)
    return costs


PATIENCE = 10
"""The intervals for which an owner may leave charges unpaid; early periods count as parts."""
_NEARLY = 0.25
"""A tolerance in intervals: real intervals differ, so their sum is rarely a whole number."""


def arrears_after(
    before: Mapping[int, float],
    short: Collection[int],
    owing: Collection[int],
    intervals: float = 1.0,
) -> dict[int, float]:
    """Return, by owner, the number of intervals it has not paid in full.

    `short` are the owners that could not pay for this period, which lasted `intervals`. `owing` are
    all owners that are in debt now. The count of an owner without debt restarts at zero. The count
    of an owner in debt that ran no VM stays the same, so suspending and resuming a VM does not
    reset it.
    """
    return {
        owner: before.get(owner, 0.0) + (intervals if owner in short else 0.0) for owner in owing
    }


def due_for_suspension(counts: Mapping[int, float], patience: int = PATIENCE) -> frozenset[int]:
    """Return the owners whose arrears have reached the limit."""
    return frozenset(owner for owner, count in counts.items() if _over(count, patience))


def _over(count: float, patience: int) -> bool:
    return count >= patience - _NEARLY


def warning(count: float, debt: float, patience: int = PATIENCE) -> str:
    """Return the message at each running VM of the owner; `debt` is in credits."""
    owes = f"its owner owes {credits_text(debt)} credits for earlier periods"
    if _over(count, patience):
        return (
            f"suspended: {owes}, and has not paid in full for {count:.0f} periods;"
            " resume it once the debt is paid"
        )
    left = ceil(patience - _NEARLY - count)
    periods = "period" if left == 1 else "periods"
    return f"{owes}: VMs are suspended in {left} {periods} unless they are paid"


def why_stopped(debt: float) -> str:
    """Return why a VM is stopped that is off or was started by its owner; `debt` in credits."""
    return (
        f"leaves its host: its owner owes {credits_text(debt)} credits for earlier periods;"
        " resume it once the debt is paid, then it is placed"
    )


def refusal(debt: float) -> str:
    """Return why no new VM of the owner is placed; `debt` is in credits."""
    return (
        f"not placed: its owner owes {credits_text(debt)} credits for earlier periods;"
        " new VMs are placed once the debt is paid"
    )


STAGES_S = (3600.0, 6 * 3600.0, 24 * 3600.0)
"""The stages of the warning about low credits: one warning at each of these remaining times."""


def time_until_empty(balance: int, cost: float, period_s: float) -> float:
    """Return how long a balance lasts at this cost per period; infinite if the cost is zero."""
    return balance / cost * period_s if cost > 0 else math.inf


def warning_stage(left_s: float) -> float | None:
    """Return the current stage, or None; it changes only when a further warning is due."""
    return next((limit for limit in STAGES_S if left_s < limit), None)


def warning_text(limit_s: float) -> str:
    """Return the warning of a stage for the owner."""
    hours = round(limit_s / 3600)
    return f"credits last for less than {hours} {'hour' if hours == 1 else 'hours'} at this cost"
