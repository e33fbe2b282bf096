"""Figures 6 to 10: a deadline application and four best-effort ones on one node, in virtual time.

Section 3.1.2: each in a VM of 4 cores on a node of 700 units; the four bid 100 for CPU and 900 for
memory and never change it, and come in the first 20 minutes. The application needs 77.5 minutes
alone. Its controller looks every 80 s and changes its bids by Algorithm 2.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Floats
from merkatd.market.share import share
from merkatd.policies.deadline import Work, performance
from merkatd.policies.vertical import Means, Standing, Trace, adapt

CAPACITY = (700.0, 23.0 * 1024.0)
SIZE = (400.0, 900.0)
LEAST = (40.0, 90.0)
OTHERS_BID = (100.0, 900.0)
OTHERS_COME_S = (300.0, 600.0, 900.0, 1200.0)
IDEAL_S = 4650.0
STEPS = 1000
BUDGET = 60_000.0
"""It may spend as much of it as it wants."""
PERIOD_S, LOOKS_EVERY_S = 60.0, 80.0
TICK_S = 20.0
"""Both rhythms are whole numbers of ticks."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What is seen at a look of the controller."""

    at_s: float
    bid_cpu: float
    cpu: float
    step_s: float
    reference_s: float


@dataclass(frozen=True, slots=True)
class Story:
    """How one run went."""

    moments: tuple[Moment, ...]
    end_s: float


@dataclass(slots=True)
class _State:
    bid: tuple[float, ...]
    done: float = 0.0
    traces: tuple[Trace, ...] = ()


def story(deadline_s: Callable[[float], float], *, adapts: bool = True) -> Story:
    """Run the application to its end; `deadline_s` says at each time what its deadline is."""
    state = _State(OTHERS_BID)
    allocation: tuple[float, ...] = SIZE
    moments: list[Moment] = []
    now_s = 0.0
    while state.done < STEPS:
        if now_s % PERIOD_S == 0:
            allocation = _allocation(state.bid, now_s)
        step_s = IDEAL_S / STEPS / min(a / m for a, m in zip(allocation, SIZE, strict=True))
        if now_s % LOOKS_EVERY_S == 0:
            moments.append(_look(state, allocation, step_s, now_s, deadline_s(now_s), adapts))
        state.done += TICK_S / step_s
        now_s += TICK_S
    return Story(tuple(moments), now_s - (state.done - STEPS) * step_s)


def others(now_s: float) -> int:
    """How many best-effort applications are there."""
    return sum(come_s <= now_s for come_s in OTHERS_COME_S)


def _allocation(bid: tuple[float, ...], now_s: float) -> tuple[float, ...]:
    """Eq. 1 on the node, for the application in the first row."""
    count = 1 + others(now_s)
    found = []
    for column, capacity in enumerate(CAPACITY):
        bids: Floats = np.full(count, OTHERS_BID[column])
        bids[0] = bid[column]
        caps: Floats = np.full(count, SIZE[column])
        pool = np.zeros(count, dtype=np.int64)
        shares = share(bids, np.zeros(count), caps, pool, np.array([capacity]))
        found.append(float(shares.allocation[0]))
    return tuple(found)


def _look(
    state: _State,
    allocation: tuple[float, ...],
    step_s: float,
    now_s: float,
    due_s: float,
    adapts: bool,
) -> Moment:
    work = Work(steps=STEPS, done=int(state.done), ideal_step_s=IDEAL_S / STEPS)
    seen = performance(work, due_s - now_s, step_s)
    moment = Moment(now_s, state.bid[0], allocation[0], step_s, seen.reference)
    if adapts:
        standing = Standing(
            bid=state.bid,
            allocation=allocation,
            least=LEAST,
            most=SIZE,
            keeping=tuple(_keeping(column, now_s) for column in range(len(SIZE))),
        )
        means = Means(bid_min=1.0, bid_max=BUDGET)
        adapted = adapt(standing, seen, means, state.traces)
        state.bid, state.traces = adapted.bid, adapted.traces
    return moment


def _keeping(column: int, now_s: float) -> float:
    """The least bid that keeps the most it can use, from Eq. 1."""
    count, size, capacity = others(now_s), SIZE[column], CAPACITY[column]
    if size * (count + 1) <= capacity:
        return 1.0
    return count * OTHERS_BID[column] * size / (capacity - size)
