"""The weights of goods among limit orders, stored with each decision for the next one.

So a daemon that starts anew, and a second daemon, continue with the same weights.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Decision, Floats, Snapshot
from merkatd.market.goods_weights import next_weights

WEIGHT_COLUMNS = frozenset({"goods_weights", "goods_offers", "weights_age_s"})
"""The names of the stored columns, each with a row per market."""


def weight_columns(
    snapshot: Snapshot, decision: Decision, age_s: Floats | None
) -> Mapping[str, Any]:
    """Return the columns of a decision, if there are limit orders; `age_s` is [markets].

    A market whose strategy failed keeps its weights.
    """
    if not len(snapshot.orders):
        return {}
    weights = np.full((len(snapshot.markets), len(snapshot.resources)), np.nan)
    if snapshot.markets.weights.shape[1]:
        weights = snapshot.markets.weights.copy()
    offers = weights.copy()
    if decision.goods_offers is not None:
        known = ~np.isnan(decision.goods_offers.weights)
        np.copyto(weights, decision.goods_offers.weights, where=known)
        np.copyto(offers, decision.goods_offers.offers, where=known)
    age_s = np.zeros(len(weights)) if age_s is None else age_s
    return {"goods_weights": weights, "goods_offers": offers, "weights_age_s": age_s}


def advanced_weights(snapshot: Snapshot, last: Mapping[str, Any]) -> tuple[Floats, Floats]:
    """Return the weights that follow from the last decision's columns, and their ages.

    The weights are [markets, resources], NaN where none are stored; the ages [markets].
    """
    shape = len(snapshot.markets), len(snapshot.resources)
    if "goods_weights" not in last or last["goods_weights"].shape != shape:
        return np.full(shape, np.nan), np.zeros(len(snapshot.markets))
    passed_s = snapshot.now_s - float(last["seen_s"][0])
    weights, age_s = next_weights(
        last["goods_weights"], last["goods_offers"], last["weights_age_s"], passed_s
    )
    unknown: Bools = ~np.isfinite(weights)
    rows = unknown.any(axis=1)
    weights[rows], age_s[rows] = np.nan, 0.0
    return weights, age_s
