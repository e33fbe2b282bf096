"""What a platform's limit order says in each period (Note [A platform's order])."""

from collections.abc import Set as AbstractSet
from dataclasses import replace
from math import inf

from merkatd.cluster.orders import LEAST_LIMIT, LimitOrder
from merkatd.platforms.rules.lifecycle_events import OrderInput, PlatformState
from merkatd.platforms.rules.start_conditions import MarketOffer, Terms
from merkatd.policies.patience import funded_s

_STATED = "its limit order takes part from the next period on"
_INCOMPLETE = "not all of its VMs exist"
_NO_CREDITS = "it has no credits for a limit order"


def order_facts(order: LimitOrder | None, terms: Terms, *, complete: bool) -> OrderInput:
    """Return the facts about a platform's order; `complete`: whether all of its VMs exist."""
    if order is None or not order.vms:
        why = _STATED if terms.purse.credits > 0 else _NO_CREDITS
        return OrderInput(complete=complete, runs=False, why=why if complete else _INCOMPLETE)
    return OrderInput(complete=complete, runs=order.runs, why=order.why or _STATED)


def ordered_members(
    vms: AbstractSet[int], running: AbstractSet[int], limit: float, *, complete: bool
) -> AbstractSet[int]:
    """Return the VMs that are in the order now: those that run, and if it may run, all.

    A waiting order starts only with all VMs.
    """
    return running | vms if complete and limit > 0 else running


def restated(
    order: LimitOrder,
    state: PlatformState,
    limit: float,
    terms: Terms,
    offer: MarketOffer,
    *,
    is_up: bool,
) -> LimitOrder:
    """Return the order with its limit and least run of now; `is_up`: whether any of its VMs run.

    While a platform runs in its order, its controller sets the limit.
    """
    if order.runs and state is PlatformState.RUNNING and limit != LEAST_LIMIT:
        return order
    if limit == LEAST_LIMIT:
        return replace(order, limit=limit)
    if order.runs or is_up:  # VMs that boot take no part in the market yet
        return replace(order, limit=max(order.limit, limit))
    work_s = inf if terms.ideal_s is None else terms.ideal_s
    left_s = inf if terms.deadline_s is None else max(terms.deadline_s - offer.now_s, 0.0)
    least_run_s = funded_s(limit, terms.purse, min(work_s, left_s), offer.interval_s)
    return replace(order, limit=max(limit, LEAST_LIMIT), least_run_s=least_run_s)
