"""Vertical scaling (Algorithm 2): a VM's bids rise and fall until its application is on time.

Bids at least double while the application is slow, and at least halve while it is fast. To let
them settle, a change of direction is at most half of the last change. A third change in one
direction shows that conditions have changed, and steps grow again. When the market turns, the step
limits are dropped at once. A market that swings between two prices has not turned: without this
rule, two applications that react to each other would swing for ever.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import copysign, inf, isfinite

Amounts = tuple[float, ...]

CLOSE = 1e-9
"""The largest relative distance from the maximum at which an allocation counts as the maximum."""
PATIENCE = 2
"""The changes in one direction after which steps grow: halving steps need no more to settle."""
MARGIN = 1.1
"""The factor above a bid that proved too low for the maximum."""
TURN = 1.5
"""The factor between costs of the maximum, up or down, from which the market has turned."""
_FARTHEST = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """The application's performance: v, v_ref, v_low and v_high."""

    value: float
    reference: float
    low: float
    high: float

    @property
    def slow(self) -> bool:
        """Return whether the application needs more."""
        return self.value > self.high

    @property
    def fast(self) -> bool:
        """Return whether less is enough for the application."""
        return self.value < self.low

    @property
    def gap(self) -> float:
        """Return T, the relative distance of the value from the reference; a million at most."""
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
    """alloc_min: below it, the bid rises however fast the application is."""
    most: Amounts
    """alloc_max: the full size of the VM."""
    keeping: Amounts
    """The least bid that keeps the maximum at present prices, by the controller's estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingLimit:
    """The limits of a VM's bids in a period."""

    bid_min: float
    """The least bid for each resource; above 0."""
    bid_max: float
    """The limit of all bids together."""


@dataclass(frozen=True, slots=True)
class BidTrace:
    """The memory of one resource's bids."""

    change: float = 0.0
    """The last change of its bid."""
    limit: float = inf
    """The largest allowed change."""
    run: int = 0
    """The number of successive changes in the same direction."""
    short: float = 0.0
    """The largest bid that proved too low for the maximum."""
    short_keeping: float = 0.0
    """The estimate of the bid that keeps the maximum, made at the time of `short`."""
    market: float | None = None
    """The estimate of that bid when the count of steps last restarted."""
    market_before: float | None = None
    """The estimate before `market`: a market that swings between the two has not turned."""


@dataclass(frozen=True, slots=True)
class AdaptedBids:
    """New bids, and the traces for the next call."""

    bid: Amounts
    traces: tuple[BidTrace, ...]


def adapt(
    standing: VmPosition,
    performance: Performance,
    means: SpendingLimit,
    traces: Sequence[BidTrace] = (),
) -> AdaptedBids:
    """Return the bids of the next period. Their sum is at most `means.bid_max`."""
    seen = tuple(_noted(standing, row, trace) for row, trace in enumerate(_all(standing, traces)))
    wished = [_wished(standing, performance, means, row, trace) for row, trace in enumerate(seen)]
    shared = share_budget(wished, standing, means.bid_max)
    steps = [
        _steady(wish - bid, trace)
        for wish, bid, trace in zip(shared, standing.bid, seen, strict=True)
    ]
    bids = _affordable(standing.bid, [step for step, _ in steps], means.bid_max)
    return AdaptedBids(
        bids,
        tuple(
            _changed(trace, limit, new - old)
            for (_, limit), trace, new, old in zip(steps, seen, bids, standing.bid, strict=True)
        ),
    )


def _all(standing: VmPosition, traces: Sequence[BidTrace]) -> Sequence[BidTrace]:
    return traces or (BidTrace(),) * len(standing.bid)


def is_full(standing: VmPosition, row: int) -> bool:
    """Return whether the VM has its maximum of a resource."""
    return standing.allocation[row] >= standing.most[row] * (1 - CLOSE)


def _noted(standing: VmPosition, row: int, trace: BidTrace) -> BidTrace:
    """Record a bid that proved too low for the maximum, and forget it when prices change."""
    keeping, bid, short = standing.keeping[row], standing.bid[row], trace.short
    if not trace.short_keeping / MARGIN <= keeping <= trace.short_keeping * MARGIN:
        short = 0.0
    known = trace.short_keeping if short else 0.0
    if not is_full(standing, row) and bid > short:
        short, known = bid, keeping
    markets = (trace.market, trace.market_before)
    if not any(price is not None and price / TURN <= keeping <= price * TURN for price in markets):
        return BidTrace(
            short=short, short_keeping=known, market=keeping, market_before=trace.market
        )
    return replace(trace, short=short, short_keeping=known)


def _wished(
    standing: VmPosition, performance: Performance, means: SpendingLimit, row: int, trace: BidTrace
) -> float:
    """Return the desired bid for one resource (lines 4 to 20), before budget and step limits."""
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
    """Divide a budget that is too small in proportion to each resource's shortage (lines 22 to 30).

    In the paper's form a resource may get more than its desired bid; with `capped` it may not.
    """
    if sum(wished) <= bid_max:
        return list(wished)
    lacking = [
        0.0 if is_full(standing, row) else 1.0 - standing.allocation[row] / standing.most[row]
        for row in range(len(wished))
    ]
    kept = sum(wish for wish, part in zip(wished, lacking, strict=True) if part == 0.0)
    missing = sum(lacking)
    if missing == 0.0 or kept >= bid_max:
        return [wish * (bid_max / sum(wished)) for wish in wished]
    shares = [(bid_max - kept) * part / missing for part in lacking]
    return [
        wish if part == 0.0 else min(wish, share) if capped else share
        for wish, part, share in zip(wished, lacking, shares, strict=True)
    ]


def _steady(change: float, trace: BidTrace) -> tuple[float, float]:
    """Return the limited change, and its new limit (lines 7 to 11 and 15 to 19)."""
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
    """Return the bids after these steps; if they exceed `bid_max`, raises are reduced first."""
    raised = sum(step for step in steps if step > 0)
    over = sum(bids) + sum(steps) - bid_max
    part = 1.0
    if over > 0:
        part = 1.0 - over / raised if raised > over else 0.0
    new = tuple(_after(bids, steps, part))
    # Rounding: the difference of a large bid and a large step is not exact.
    total = sum(new)
    return new if total <= bid_max else tuple(bid * (bid_max / total) for bid in new)


def _after(bids: Amounts, steps: Sequence[float], part: float) -> Iterator[float]:
    for bid, step in zip(bids, steps, strict=True):
        yield bid + (step * part if step > 0 else step)


def _changed(trace: BidTrace, limit: float, change: float) -> BidTrace:
    if change == 0.0:
        return trace
    run = trace.run + 1 if change * trace.change > 0 else 1
    return replace(trace, change=change, limit=limit, run=run)
