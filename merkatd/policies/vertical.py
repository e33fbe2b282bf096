"""Algorithm 2: raise and lower the bids of a VM until its application is neither late nor early.

Bids double (at least) while the application is slow and halve (at least) while it is fast. So
that they settle, a change in the other direction is at most half of the last one; a third
change in one direction says that conditions are not what they were, and steps grow again. In a
market that has turned there is no reason for small steps, and they are forgotten at once. A market
that swings to and fro has not turned: two applications that answer each other would swing for ever.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import copysign, inf, isfinite

Amounts = tuple[float, ...]

CLOSE = 1e-9
"""An allocation that lacks no larger part of its maximum is the maximum."""
PATIENCE = 2
"""So many changes in one direction are what halving steps take when nothing else changes."""
MARGIN = 1.1
"""By so much the bid is raised above one that was seen to be too little for the maximum."""
TURN = 1.5
"""A market in which the maximum costs so many times more, or less, is another one."""
_FARTHEST = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """How the application does: v, v_ref, v_low, v_high."""

    value: float
    reference: float
    low: float
    high: float

    @property
    def slow(self) -> bool:
        """Whether it needs more."""
        return self.value > self.high

    @property
    def fast(self) -> bool:
        """Whether less would do."""
        return self.value < self.low

    @property
    def gap(self) -> float:
        """T: how far the value is from the reference; a million at most."""
        low, high = sorted((self.value, self.reference))
        if low <= 0 or not isfinite(high):
            return _FARTHEST
        return min((high - low) / low, _FARTHEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class VmPosition:
    """A VM in the market, by resource."""

    bid: Amounts
    allocation: Amounts
    least: Amounts
    """alloc_min: with less the bid is raised however fast the application is."""
    most: Amounts
    """alloc_max"""
    keeping: Amounts
    """The least bid that keeps the maximum at present prices, as far as the controller knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingLimit:
    """What can be spent on a VM in a period."""

    bid_min: float
    """Of each resource; above 0."""
    bid_max: float
    """Of all together."""


@dataclass(frozen=True, slots=True)
class BidTrace:
    """What is remembered of one resource."""

    change: float = 0.0
    """The last change of its bid."""
    limit: float = inf
    """No change is larger."""
    run: int = 0
    """How many changes in a row went the same way."""
    short: float = 0.0
    """The largest bid that was seen to be too little for the maximum,"""
    short_keeping: float = 0.0
    """and what was thought to keep it then."""
    market: float | None = None
    """What was thought to keep the maximum when the steps began to be counted,"""
    market_before: float | None = None
    """and before that: a market that goes to and fro between the two has not turned again."""


@dataclass(frozen=True, slots=True)
class Adapted:
    """New bids, and what to remember."""

    bid: Amounts
    traces: tuple[BidTrace, ...]


def adapt(
    standing: VmPosition,
    performance: Performance,
    means: SpendingLimit,
    traces: Sequence[BidTrace] = (),
) -> Adapted:
    """The bids of the next period. Their sum is at most `means.bid_max`."""
    seen = tuple(_noted(standing, row, trace) for row, trace in enumerate(_all(standing, traces)))
    wished = [_wished(standing, performance, means, row, trace) for row, trace in enumerate(seen)]
    shared = share_budget(wished, standing, means.bid_max)
    steps = [
        _steady(wish - bid, trace)
        for wish, bid, trace in zip(shared, standing.bid, seen, strict=True)
    ]
    bids = _affordable(standing.bid, [step for step, _ in steps], means.bid_max)
    return Adapted(
        bids,
        tuple(
            _changed(trace, limit, new - old)
            for (_, limit), trace, new, old in zip(steps, seen, bids, standing.bid, strict=True)
        ),
    )


def _all(standing: VmPosition, traces: Sequence[BidTrace]) -> Sequence[BidTrace]:
    return traces or (BidTrace(),) * len(standing.bid)


def is_full(standing: VmPosition, row: int) -> bool:
    """Return whether the VM has all of a resource that it can use."""
    return standing.allocation[row] >= standing.most[row] * (1 - CLOSE)


def _noted(standing: VmPosition, row: int, trace: BidTrace) -> BidTrace:
    """Remember a bid that is too little for the maximum, until prices are others."""
    keeping, bid, short = standing.keeping[row], standing.bid[row], trace.short
    if not trace.short_keeping / MARGIN <= keeping <= trace.short_keeping * MARGIN:
        short = 0.0
    known = trace.short_keeping if short else 0.0
    if not is_full(standing, row) and bid > short:
        short, known = bid, keeping
    markets = (trace.market, trace.market_before)
    if not any(one is not None and one / TURN <= keeping <= one * TURN for one in markets):
        return BidTrace(
            short=short, short_keeping=known, market=keeping, market_before=trace.market
        )
    return replace(trace, short=short, short_keeping=known)


def _wished(
    standing: VmPosition, performance: Performance, means: SpendingLimit, row: int, trace: BidTrace
) -> float:
    """Lines 4 to 20 for one resource, before budgets and steadiness."""
    bid, allocation = standing.bid[row], standing.allocation[row]
    full = is_full(standing, row)
    factor = max(2.0, 1.0 + performance.gap)
    if (performance.slow and not full) or allocation < standing.least[row]:
        raised = max(bid, means.bid_min) * (factor if performance.slow else 2.0)
        return min(raised, means.bid_max)
    kept = max(standing.keeping[row], trace.short * MARGIN, means.bid_min)
    if performance.fast and allocation > standing.least[row]:
        lowered = max(bid / factor, means.bid_min)
        return min(lowered, kept) if full else min(lowered, bid)
    return min(bid, kept) if full else bid


def share_budget(
    wished: Sequence[float], standing: VmPosition, bid_max: float, *, capped: bool = True
) -> list[float]:
    """Lines 22 to 30: too small a budget goes where most is lacking.

    As printed, a resource may get more than its wish; `capped`, it gets no more.
    """
    if sum(wished) <= bid_max:
        return list(wished)
    lacking = [
        0.0 if is_full(standing, row) else 1.0 - standing.allocation[row] / standing.most[row]
        for row in range(len(wished))
    ]
    kept = sum(wish for wish, part in zip(wished, lacking, strict=True) if part == 0.0)
    whole = sum(lacking)
    if whole == 0.0 or kept >= bid_max:
        return [wish * (bid_max / sum(wished)) for wish in wished]
    shares = [(bid_max - kept) * part / whole for part in lacking]
    return [
        wish if part == 0.0 else min(wish, share) if capped else share
        for wish, part, share in zip(wished, lacking, shares, strict=True)
    ]


def _steady(change: float, trace: BidTrace) -> tuple[float, float]:
    """The change that is made, and the limit on it (lines 7 to 11 and 15 to 19)."""
    if change == 0.0:
        return 0.0, trace.limit
    if change * trace.change < 0:
        limit = abs(trace.change) / 2
    elif trace.run >= PATIENCE:
        limit = trace.limit * 2
    else:
        limit = trace.limit
    return copysign(min(abs(change), limit), change), limit


def _affordable(bids: Amounts, steps: Sequence[float], bid_max: float) -> Amounts:
    """Bids after these steps; where they are too dear, first the raises are made smaller."""
    raised = sum(step for step in steps if step > 0)
    over = sum(bids) + sum(steps) - bid_max
    part = 1.0
    if over > 0:
        part = 1.0 - over / raised if raised > over else 0.0
    new = tuple(_after(bids, steps, part))
    # What is left of a great bid by a great step is not exact.
    whole = sum(new)
    return new if whole <= bid_max else tuple(bid * (bid_max / whole) for bid in new)


def _after(bids: Amounts, steps: Sequence[float], part: float) -> Iterator[float]:
    for bid, step in zip(bids, steps, strict=True):
        yield bid + (step * part if step > 0 else step)


def _changed(trace: BidTrace, limit: float, change: float) -> BidTrace:
    if change == 0.0:
        return trace
    run = trace.run + 1 if change * trace.change > 0 else 1
    return replace(trace, change=change, limit=limit, run=run)
