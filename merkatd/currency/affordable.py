"""Bids lowered to what their payer can pay, so that nobody buys what they can't pay for."""

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
