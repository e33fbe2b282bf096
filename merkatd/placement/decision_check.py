"""The check of a strategy's decision before its use.

# Note [Wrong decisions]

A strategy with a mistake must not stop the cloud. Its decision is checked as soon as it is made,
and a market with a wrong one keeps its present places for the period (Note [A strategy that fails]
in `merkatd/scheduler/phases/market_decisions.py`). Without the check, the mistake would show later:
in OpenNebula's refusals, in the limits of other markets' VMs, or as an error of the whole period.

Checked is what each step, amount and price may be, alone and together with the present cloud. Rules
of VM groups are not, as they would cost as much as the decision; the conformance suite checks them.
The rooms of other markets don't matter: a strategy does not see them. Example: market `gold` has
hosts 1 and 2. A step of its strategy that brings VM 7 to host 3 is wrong, whatever host 3 is. So is
an allocation of 500 % of CPU on host 1, which has four cores.

A wish for an application that the market does not have, and a host that is gone or can't sleep now,
are no mistakes: the cloud has changed since, perhaps. They are left out with a reason.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from merkatd.cluster import (
    RESTING,
    Decision,
    Deploy,
    HostState,
    Ints,
    Migrate,
    OfHost,
    Plan,
    Resume,
    Scale,
    Snapshot,
    Stop,
    Suspend,
    Terminate,
    VmState,
)
from merkatd.cluster.columns import NO_HOST, NO_ROW, row_of
from merkatd.cluster.orders import with_order_terms
from merkatd.cluster.plan import CyclicPlanError, Sleep, Step, Wake
from merkatd.market.explanation import hosts_after
from merkatd.market.market_view import MarketView, market_view

STEPS: tuple[type[Step], ...] = (
    Deploy,
    Migrate,
    Suspend,
    Stop,
    Resume,
    Terminate,
    Sleep,
    Wake,
)
"""The kinds of steps of strategies. Platforms and groups create VMs, and limits follow from
allocations."""

_STATES: Mapping[type[Step], frozenset[VmState]] = {
    Deploy: frozenset({VmState.PENDING}),
    Migrate: frozenset({VmState.RUNNING, *RESTING}),
    Suspend: frozenset({VmState.RUNNING}),
    Stop: frozenset({VmState.RUNNING, *RESTING}),
    Resume: frozenset({VmState.ABSENT, *RESTING}),
    Terminate: frozenset(VmState) - {VmState.BUSY},
}
"""By kind of step: the states in which a VM may have it."""

_NEARLY = 1 + 1e-6
"""Sums of amounts are rounded."""


class WrongDecisionError(ValueError):
    """A strategy's decision that can't be used.

    `mistake` names its kind, without any number.
    """

    def __init__(self, mistake: str, where: str = "") -> None:
        self.mistake = mistake
        super().__init__(f"{where}: {mistake}" if where else mistake)


def checked_decision(snapshot: Snapshot, market: int, decision: Any) -> Decision:
    """Return the decision for the market in this row, which is the only one in the snapshot.

    Raise WrongDecisionError. See Note [Wrong decisions].
    """
    if not isinstance(decision, Decision) or not isinstance(decision.plan, Plan):
        raise WrongDecisionError(f"it is no decision with a plan ({type(decision).__name__})")
    _check_numbers(snapshot, decision)
    _check_plan(snapshot, market, decision.plan)
    _check_amounts(snapshot, market, decision)
    _check_words(snapshot, decision)
    _check_memory(decision.memory)
    return decision


def _check_numbers(snapshot: Snapshot, decision: Decision) -> None:
    resources = len(snapshot.resources)
    tables = {
        "allocations": (decision.allocations, len(snapshot.vms)),
        "prices": (decision.prices, len(snapshot.markets)),
    }
    for name, (table, rows) in tables.items():
        if table.dtype.kind != "f" or table.shape != (rows, resources):
            found = f"{table.dtype} {list(table.shape)}"
            raise WrongDecisionError(
                "the table must have a number for each row and resource",
                f"{name} ({found} instead of [{rows}, {resources}])",
            )
        if np.isnan(table).any() or (table < 0).any():
            raise WrongDecisionError("a number must be at least 0, and not NaN", name)
    if not np.isfinite(decision.allocations).all():
        raise WrongDecisionError("an amount must be finite", "allocations")


def _check_plan(snapshot: Snapshot, market: int, plan: Plan) -> None:
    done: set[str] = set()
    for step in plan:
        _check_step(snapshot, market, step)
        name = f"host {step.host}" if isinstance(step, OfHost) else f"VM {step.vm}"
        if name in done:
            raise WrongDecisionError("it has more than one step", name)
        done.add(name)
    try:
        Plan.ordered(list(plan))
    except CyclicPlanError as error:
        raise WrongDecisionError("steps wait for each other", str(error)) from None


def _check_step(snapshot: Snapshot, market: int, step: Any) -> None:
    where = f"{getattr(step, 'kind', type(step).__name__)} of {getattr(step, 'target', '?')}"
    if not isinstance(step, STEPS):
        raise WrongDecisionError("no strategy may make such a step", where)
    if step.period != snapshot.period:
        raise WrongDecisionError("the step must be of this period", f"{where} ({step.period})")
    if not _is_text(step.reason):
        raise WrongDecisionError("the step must have a reason in words", where)
    if isinstance(step, OfHost):
        is_gone = row_of(snapshot.hosts.id, step.host) is None
        why = "" if is_gone else _why_no_host(snapshot, market, step.host)
    else:
        why = _why_not_for_vm(snapshot, market, step)
    if why:
        raise WrongDecisionError(why, where)


def _why_no_host(snapshot: Snapshot, market: int, host: Any) -> str:
    row = row_of(snapshot.hosts.id, host)
    if row is None:
        return "there is no such host"
    return "" if snapshot.hosts.market[row] == market else "the host is not in its market"


def _why_not_for_vm(snapshot: Snapshot, market: int, step: Step) -> str:
    vms = snapshot.vms
    row = row_of(vms.id, step.vm)
    if row is None:
        return "there is no such VM"
    if vms.market[row] != market:
        return "the VM is not in its market"
    state = VmState(int(vms.state[row]))
    if state not in _STATES[type(step)]:
        return f"the VM is {state.name.lower().replace('_', ' ')}"
    if isinstance(step, Deploy) and not vms.placeable[row]:
        return "the VM may get no host in this period"
    why = _why_not_moved(snapshot, row, step) if isinstance(step, Migrate) else ""
    host = getattr(step, "host", None)
    arrives = isinstance(step, Deploy | Migrate) or host is not None
    return why or (_why_not_to(snapshot, market, row, host) if arrives else "")


def _why_not_moved(snapshot: Snapshot, row: int, step: Migrate) -> str:
    vms, at = snapshot.vms, int(snapshot.vms.host[row])
    if at == NO_HOST or snapshot.hosts.id[at] != step.source:
        return "the VM is not on the host that it is to leave"
    if step.host == step.source:
        return "the VM is there already"
    if not vms.movable[row]:
        return "the VM may not be moved"
    runs = vms.state[row] == VmState.RUNNING
    return "" if runs or not step.live else "a VM that does not run can't be moved live"


def _why_not_to(snapshot: Snapshot, market: int, row: int, host: Any) -> str:
    """Return why the VM in this row must not come to the host, or ""."""
    why = _why_no_host(snapshot, market, host)
    if why:
        return why
    at, rule = snapshot.host_row(host), int(snapshot.vms.requirement[row])
    stays = snapshot.vms.host[row] == at
    if snapshot.hosts.state[at] != HostState.ON and not stays:
        return "the host takes no VMs"
    if rule != NO_ROW and not snapshot.requirements.allowed[rule, at]:
        return "the host does not meet the VM's requirements"
    return ""


def _check_amounts(snapshot: Snapshot, market: int, decision: Decision) -> None:
    """Check the amounts of VMs alone, and those of all VMs of a host together."""
    seen = with_order_terms(snapshot, decision.order_terms)
    view, given, ids = market_view(seen, market), decision.allocations, snapshot.vms.id
    others = np.ones(len(ids), dtype=bool)
    others[view.vms] = False
    strange = others & (given > 0).any(axis=1)
    if strange.any():
        raise WrongDecisionError(
            "the VM takes no part in its market, and can't get anything",
            f"allocation of VM {ids[strange.argmax()]}",
        )
    most = np.maximum(seen.vms.cap, seen.vms.floor)
    beyond = (given > most * _NEARLY + 1e-6).any(axis=1)
    if beyond.any():
        raise WrongDecisionError(
            "the VM can't get more than its cap", f"allocation of VM {ids[beyond.argmax()]}"
        )
    place = _places(seen, view, decision.plan)
    there = np.flatnonzero(place != NO_HOST)
    floors, totals = np.zeros_like(view.capacity), np.zeros_like(view.capacity)
    np.add.at(floors, place[there], view.floor[there])
    np.add.at(totals, place[there], given[view.vms[there]])
    name = snapshot.hosts.name
    over = (totals > np.maximum(view.capacity, floors) * _NEARLY + 1e-6).any(axis=1)
    if over.any():
        raise WrongDecisionError(
            "its VMs can't get more than it has", f"host {name[view.hosts[over.argmax()]]}"
        )
    came = np.zeros(len(view.hosts), dtype=bool)
    came[place[there[place[there] != view.place[there]]]] = True
    full = came & (floors > view.capacity * _NEARLY + 1e-6).any(axis=1)
    if full.any():
        raise WrongDecisionError(
            "a VM comes to a host without room for its floor",
            f"host {name[view.hosts[full.argmax()]]}",
        )


def _places(snapshot: Snapshot, view: MarketView, plan: Plan) -> Ints:
    """Return [vms of the view]: the host in the view after the plan."""
    local = np.full(len(snapshot.hosts) + 1, NO_HOST)
    local[view.hosts] = np.arange(len(view.hosts))
    place: Ints = local[hosts_after(snapshot, plan)[view.vms]]
    return place


def _check_words(snapshot: Snapshot, decision: Decision) -> None:
    reasons = decision.reasons
    if not all(isinstance(why, str) for why in reasons.values()):
        raise WrongDecisionError("each must be words", "reasons")
    if reasons and not reasons.keys() <= set(snapshot.vms.id.tolist()):
        raise WrongDecisionError("each must be for a VM of the cloud", "reasons")
    wishes: Iterable[Any] = decision.wishes
    for wish in wishes:
        if not isinstance(wish, Scale) or not _are_whole(wish.application, wish.replicas):
            raise WrongDecisionError("each must be for a whole number of VMs", "wishes")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _are_whole(*numbers: Any) -> bool:
    return all(isinstance(number, int | np.integer) for number in numbers)


def _check_memory(memory: Any) -> None:
    """Check that the memory can be stored: plain values, and arrays of numbers and flags."""
    try:
        arrays = {name: value for name, value in memory.items() if isinstance(value, np.ndarray)}
        json.dumps(
            {name: value for name, value in memory.items() if name not in arrays}, allow_nan=False
        )
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise WrongDecisionError("it can't be stored", f"memory ({error})") from None
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise WrongDecisionError(
                "an array must have numbers or flags", f"memory ({name} of {array.dtype})"
            )
