"""The steps of `utility` in a feasible order, and the reasons for them and for waiting."""

from dataclasses import replace

import numpy as np

from merkatd.cluster import Ints, Resume, Stop
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.cluster.plan import Step
from merkatd.placement.base.board import Board
from merkatd.placement.base.move_order import OrderedMoves, order_moves
from merkatd.placement.base.placement_problem import must_leave
from merkatd.placement.market.move_reasons import (
    said,
    why_leaves,
    why_pending,
    why_stays,
    why_stuck,
)
from merkatd.placement.market.settlement import move_step
from merkatd.placement.utility.placement_trial import Judgment
from merkatd.placement.utility.utility_market import UtilityMarket


def feasible_moves(market: UtilityMarket, wanted: Ints) -> OrderedMoves:
    """Return the moves to the wanted places in a feasible order.

    VMs that are saved have left by then: the steps for their places wait for them.
    """
    view = market.view
    stopped = (view.place != NO_HOST) & (wanted == NO_HOST)
    left = replace(view, place=np.where(stopped, NO_HOST, view.place))
    return order_moves(left, market.problem.rules, wanted)


def steps_of(market: UtilityMarket, orderly: OrderedMoves, judged: Judgment) -> list[Step]:
    """Return the steps of a market."""
    view, period = market.view, market.problem.snapshot.period
    stopped = np.flatnonzero((view.place != NO_HOST) & (orderly.place == NO_HOST)).tolist()
    steps: list[Step] = [
        Stop(period=period, vm=market.problem.vm_id(vm), reason=_why_stopped(market, judged, vm))
        for vm in stopped
    ]
    leave: dict[int, list[str]] = {}
    for step, vm in zip(steps, stopped, strict=True):
        leave.setdefault(int(view.place[vm]), []).append(step.id)
    steps.extend(_arrival(market, orderly, judged, vm, leave) for vm in orderly.moves)
    for vm in np.flatnonzero(market.resumes & (orderly.place == view.place)).tolist():
        why = "it was saved, and its host has room for it"
        steps.append(Resume(period=period, vm=market.problem.vm_id(vm), reason=why))
    for vm_id in market.saved.tolist():
        why = "it waits for a host again: the VM in its place is gone by now, or ends"
        steps.append(Resume(period=period, vm=vm_id, reason=why))
    return steps


def _arrival(
    market: UtilityMarket,
    orderly: OrderedMoves,
    judged: Judgment,
    vm: int,
    leave: dict[int, list[str]],
) -> Step:
    host = int(orderly.place[vm])
    starts = market.view.place[vm] == NO_HOST
    reason = (_why_started if starts else _why_moved)(market, judged, vm, host)
    return move_step(market.problem, orderly, vm, reason, after=leave.get(host, ()))


def _utility_words(market: UtilityMarket, judged: Judgment, vm: int) -> str:
    """Return what the VM gets and the utility of its application, in words."""
    row = market.application(vm)
    power = f"{judged.power[vm]:,.0f} % of a core"
    if row == NO_ROW:
        return "it gets a part of its size"
    return f"it gets {power}, and its application a utility of {judged.utility[row]:.2f}"


def _why_started(market: UtilityMarket, judged: Judgment, vm: int, host: int) -> str:
    name = market.problem.snapshot.hosts.name[market.view.hosts[host]]
    return f"on {name} {_utility_words(market, judged, vm)}"


def _why_stopped(market: UtilityMarket, judged: Judgment, vm: int) -> str:
    utility = judged.utility[market.application(vm)]
    return f"a less satisfied application needs its place; its own utility is then {utility:.2f}"


def _why_moved(market: UtilityMarket, judged: Judgment, vm: int, host: int) -> str:
    return why_leaves(market.problem, vm) or _why_started(market, judged, vm, host)


def reasons_of(market: UtilityMarket, orderly: OrderedMoves) -> dict[int, str]:
    """Return, by id, why VMs wait, or stay on hosts that they must leave."""
    problem, view = market.problem, market.view
    board = Board(view, orderly.place)
    running = [vm for vm in orderly.stuck if view.place[vm] != NO_HOST]
    reasons = {problem.vm_id(vm): said(why_stuck, problem, vm, orderly) for vm in running}
    fits = "waits: a start would take more from other applications than it gains"
    alike: dict[tuple[int, bytes], str] = {}
    for vm in np.flatnonzero((orderly.place == NO_HOST) & (view.place == NO_HOST)).tolist():
        # Of thousands of VMs that wait most are alike, and the reason takes long to find.
        kind = (int(problem.rules.requirement[vm]), view.floor[vm].tobytes())
        if problem.rules.bound[vm] or kind not in alike:
            alike[kind] = said(why_pending, problem, vm, board, fits)
        reasons.setdefault(problem.vm_id(vm), alike[kind])
    for vm in np.flatnonzero(must_leave(problem) & (orderly.place == view.place)).tolist():
        reasons.setdefault(problem.vm_id(vm), said(why_stays, problem, vm, board))
    return reasons
