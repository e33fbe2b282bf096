"""Strategy `utility`: jobs and services on the same hosts, about equally satisfied.

It places VMs and divides hosts so that the lowest utility is as high as possible, then the next,
and so on, with few changes (Note [The search of utility] in `placement_search.py`). Bids have no
effect, and nothing has a price.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from merkatd.cluster import Decision, Ints, Plan, Snapshot, Stop, VmState
from merkatd.cluster.columns import NO_HOST, NO_MARKET, is_one_of
from merkatd.cluster.plan import Scale, Step
from merkatd.placement.base.least_load import (
    evacuate_to_least_load,
    least_loaded,
    load_by_host,
    update_load,
)
from merkatd.placement.base.move_order import OrderedMoves
from merkatd.placement.contract import parameter
from merkatd.placement.market.overfull_hosts import relieve_board
from merkatd.placement.market.settlement import with_arrivals
from merkatd.placement.utility.contended_hosts import drop_useless_moves, relieve_contended
from merkatd.placement.utility.goal_rescue import save_goals
from merkatd.placement.utility.placement_search import (
    PlacementSearch,
    SearchTerms,
    start_on_idle,
)
from merkatd.placement.utility.placement_trial import Judgment, PlacementTrial
from merkatd.placement.utility.powers.own_shares import own_shares
from merkatd.placement.utility.service_wishes import service_wishes
from merkatd.placement.utility.utility_market import UtilityMarket, read_market
from merkatd.placement.utility.utility_steps import feasible_moves, reasons_of, steps_of

STOPPED = "stopped"
"""The key of the memory with the ids of VMs that the strategy has saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UtilitySettings:
    """The settings of `utility`."""

    cycle_s: float = parameter(60.0, unit="seconds", least=0.1, most=86_400.0, tunable=False)
    """The time until the next decision. State the period of the daemon."""
    exchange_s: float = parameter(60.0, unit="seconds", most=86_400.0)
    """The time after which a VM runs on a place that another one leaves for it."""
    least_gain: float = parameter(0.02, unit="of utility", most=10.0)
    """The least gain of a change that costs other applications something."""
    late_last: bool = True
    """Whether jobs that can't reach their goal any more come after all others."""
    plain_part: float = parameter(0.5, unit="of the size", most=1.0)
    """The part of its size that a VM of no declared job or service gets before all others. Of power
    that these leave it gets more."""
    most_moves: int = parameter(5, unit="migrations", most=100_000)
    """The most migrations in a period."""
    hold_s: float = parameter(600.0, unit="seconds", most=30 * 86_400.0)
    """The time for which a VM stays on its host after a migration."""


@dataclass(frozen=True, slots=True, eq=False)
class UtilityOutcome:
    """The decision for one market, with its numbers."""

    market: UtilityMarket
    orderly: OrderedMoves
    trial: PlacementTrial
    judged: Judgment
    """After the moves."""


def utility(
    snapshot: Snapshot,
    settings: UtilitySettings,
    memory: Mapping[str, Any],
    random: np.random.Generator,  # noqa: ARG001 - nothing is drawn
) -> Decision:
    """Return the decision for each market of the snapshot."""
    allocations = np.zeros_like(snapshot.vms.cap)
    steps: list[Step] = []
    reasons: dict[int, str] = {}
    wishes: list[Scale] = []
    stopped = stopped_vms(snapshot, memory)
    for market in range(len(snapshot.markets)):
        outcome = decide_market(snapshot, market, settings, stopped)
        view = outcome.market.view
        allocations[view.vms] = own_shares(
            outcome.market, outcome.orderly.place, outcome.judged.power, settings.plain_part
        )
        made = steps_of(outcome.market, outcome.orderly, outcome.judged)
        steps.extend(made)
        reasons |= reasons_of(outcome.market, outcome.orderly)
        wishes.extend(service_wishes(outcome.market, outcome.judged, settings.least_gain))
        snapshot = with_arrivals(snapshot, made)
    plan = Plan.ordered(steps)
    prices = np.zeros((len(snapshot.markets), len(snapshot.resources)))
    return Decision(
        plan, allocations, prices, reasons, _remembered(plan, stopped), wishes=tuple(wishes)
    )


def decide_market(
    snapshot: Snapshot, market: int, settings: UtilitySettings, stopped: Ints
) -> UtilityOutcome:
    """Return the outcome for the market in this row.

    `stopped` are the ids of VMs that the strategy has saved away from hosts.
    """
    seen = read_market(
        snapshot,
        market,
        stopped=stopped,
        cycle_s=settings.cycle_s,
        hold_s=settings.hold_s,
        late_last=settings.late_last,
    )
    place = _settled_places(seen, settings.most_moves)
    trial = PlacementTrial(seen, place, seen.spare(place, settings.plain_part))
    start_on_idle(trial, settings.cycle_s)
    terms = SearchTerms(
        settings.cycle_s,
        settings.exchange_s,
        settings.least_gain,
        settings.most_moves,
        settings.late_last,
    )
    search = PlacementSearch(trial, terms)
    if settings.late_last:
        save_goals(search)
    search.run()
    relieve_contended(search)
    drop_useless_moves(search)
    orderly = feasible_moves(seen, trial.place)
    if (orderly.place != trial.place).any():
        trial = PlacementTrial(seen, orderly.place, seen.spare(orderly.place, settings.plain_part))
        return UtilityOutcome(seen, orderly, trial, trial.judged(settings.cycle_s))
    return UtilityOutcome(seen, orderly, trial, search.now)


def _settled_places(market: UtilityMarket, most_moves: int) -> Ints:
    """Return the places with VMs away from hosts that they must leave, and new VMs on hosts.

    VMs leave overfull hosts, too. The new VMs are the plain ones and those of VM groups, whose
    hosts depend on each other.
    """
    problem, view = market.problem, market.view
    board = problem.board
    relieved = replace(problem, movable=relieve_board(problem, most_moves))
    evacuate_to_least_load(relieved, board, most_moves - problem.migrations(board.place))
    new = np.flatnonzero((view.place == NO_HOST) & (market.plain | problem.rules.bound))
    if len(new) and len(view.hosts):
        load = load_by_host(view, board)
        for vm in new[np.argsort(-problem.rules.priority[new], kind="stable")].tolist():
            host = least_loaded(vm, view, board, problem.rules, load)
            if host != NO_HOST:
                board.move(vm, host)
                update_load(host, view, board, load)
    return board.place


def stopped_vms(snapshot: Snapshot, memory: Mapping[str, Any]) -> Ints:
    """Return the ids of the cloud's VMs that the strategy has saved, as far as it remembers."""
    known = memory.get(STOPPED)
    if not isinstance(known, np.ndarray) or known.dtype.kind not in "iu" or known.ndim != 1:
        return np.zeros(0, dtype=np.int64)
    state, ids = snapshot.vms.state, snapshot.vms.id
    away = is_one_of(state, (VmState.ABSENT, VmState.BUSY)) & (snapshot.vms.market != NO_MARKET)
    return np.intersect1d(known, ids[away])


def _remembered(plan: Plan, stopped: Ints) -> dict[str, Any]:
    """Return the memory: what was saved before, and what this plan saves."""
    now = np.array([step.vm for step in plan.of(Stop)], dtype=np.int64)
    both = np.union1d(stopped, now)
    return {STOPPED: both} if len(both) else {}
