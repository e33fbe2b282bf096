"""The paper's Algorithm 2, with corrections, for comparison with the policy in use.

A change is halved only if it reverses the last change and has about the same size. The policy in
use (`merkatd/policies/vertical.py`) halves every change that reverses the last one.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from merkatd.policies.vertical import (
    AdaptedBids,
    BidTrace,
    Performance,
    SpendingLimit,
    VmPosition,
    is_full,
    share_budget,
)

_ALIKE: Final = 0.1
"""Part by which two changes of about the same size may differ."""


def adapt(
    standing: VmPosition,
    performance: Performance,
    means: SpendingLimit,
    traces: Sequence[BidTrace] = (),
) -> AdaptedBids:
    """Return the bids of the next period, and the last changes."""
    known = tuple(traces) or (BidTrace(),) * len(standing.bid)
    wished = [
        _halved(bid, _wished(standing, performance, means, row), trace.change)
        for row, (bid, trace) in enumerate(zip(standing.bid, known, strict=True))
    ]
    bids = share_budget(wished, standing, means.bid_max, capped=False)
    changes = [new - old for new, old in zip(bids, standing.bid, strict=True)]
    return AdaptedBids(
        tuple(bids),
        tuple(
            replace(trace, change=change) if change else trace
            for trace, change in zip(known, changes, strict=True)
        ),
    )


def _wished(
    standing: VmPosition, performance: Performance, means: SpendingLimit, row: int
) -> float:
    """Return the wanted bid (lines 4 to 14)."""
    bid, allocation, full = standing.bid[row], standing.allocation[row], is_full(standing, row)
    factor = max(2.0, 1.0 + performance.gap)
    if (performance.slow and not full) or allocation < standing.least[row]:
        return max(bid, means.bid_min) * (factor if performance.slow else 2.0)
    kept = max(standing.keeping[row], means.bid_min) if full else bid
    if performance.fast and allocation > standing.least[row]:
        return min(max(bid / factor, means.bid_min), kept)
    return min(bid, kept)


def _halved(bid: float, wish: float, last: float) -> float:
    """Return the wanted bid, or half of the change (lines 7 to 12 and 15 to 20)."""
    change = wish - bid
    if change * last >= 0 or abs((abs(change) - abs(last)) / change) >= _ALIKE:
        return wish
    return bid + change / 2
