"""What every strategy of the market does around its search: start, improve, settle.

A strategy brings only the part in the middle: a function that gets a Game, plays on its
board and returns the placement it wants.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from merkatd.cluster import Decision, Deploy, Floats, Ints, Migrate, Plan, Snapshot
from merkatd.cluster.steps import Step
from merkatd.market.price import price, price_of_whole_bids
from merkatd.market.view import NOWHERE, MarketView, view_of
from merkatd.placement.game import Game, start
from merkatd.placement.halves import without_harmful_halves
from merkatd.placement.order import Orderly
from merkatd.placement.settle import settle
from merkatd.placement.strategy import Pricing


def play(
    snapshot: Snapshot,
    pricing: Pricing,
    improve: Callable[[Game], Ints | Orderly],
    harm: int,
    *,
    as_planned: bool = False,
) -> Decision:
    """Decide for each market of the snapshot, and put the decisions together.

    `harm` and `as_planned` judge halves of plans: see Note [Halves of plans].
    """
    allocations = np.zeros_like(snapshot.vms.bid)
    prices = np.tile(pricing.reserve_prices(snapshot.resources), (len(snapshot.markets), 1))
    steps: list[Step] = []
    reasons: dict[int, str] = {}
    for market in range(len(snapshot.markets)):
        game = start(snapshot, market)
        found = improve(game)
        if not isinstance(found, Orderly):
            found = without_harmful_halves(game, found, harm, as_planned=as_planned)
        settled = settle(game, found)
        allocations[game.view.vms] = settled.allocations
        prices[market] = _price(snapshot, game.view, settled.place, pricing)
        steps.extend(settled.steps)
        reasons.update(settled.reasons)
        snapshot = with_arrivals(snapshot, settled.steps)
    return Decision(Plan.ordered(steps), allocations, prices, reasons)


def stay(snapshot: Snapshot, market: int, pricing: Pricing, why: str) -> Decision:
    """Divide the hosts of one market as they are. New VMs wait, and `why` is told of them."""
    view = view_of(snapshot, market)
    allocations = np.zeros_like(snapshot.vms.bid)
    prices = np.tile(pricing.reserve_prices(snapshot.resources), (len(snapshot.markets), 1))
    allocations[view.vms] = view.on_hosts(view.place).allocation
    prices[market] = _price(snapshot, view, view.place, pricing)
    waiting = snapshot.vms.id[view.vms[view.place == NOWHERE]].tolist()
    return Decision(Plan(()), allocations, prices, dict.fromkeys(waiting, why))


def _price(snapshot: Snapshot, view: MarketView, place: Ints, pricing: Pricing) -> Floats:
    reserve = pricing.reserve_prices(snapshot.resources)
    if pricing.whole_bids:
        return price_of_whole_bids(view.bid[place != NOWHERE], view.total, reserve)
    return price(view.price_level(pricing.rule, place), reserve)


def with_arrivals(snapshot: Snapshot, steps: Iterable[Step]) -> Snapshot:
    """Return the snapshot for markets that are decided later: members of VM groups have arrived.

    Only VM groups join markets. What else is decided later does not look at these VMs.
    """
    moves = [step for step in steps if isinstance(step, Deploy | Migrate)]
    if not moves or len(snapshot.markets) < 2 or not len(snapshot.roles):
        return snapshot
    host = snapshot.vms.host.copy()
    for step in moves:
        host[snapshot.vm_row(step.vm)] = snapshot.host_row(step.host)
    return replace(snapshot, vms=replace(snapshot.vms, host=host))
