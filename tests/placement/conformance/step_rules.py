"""The rules that every step and every number of a decision obeys, each with its name.

A rule returns what is wrong in words, or "". `wrong_decisions.py` breaks each of them once, so a
rule that finds nothing is found itself.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from merkatd.cluster import (
    RESTING,
    Decision,
    Deploy,
    HostState,
    Ints,
    Migrate,
    OfHost,
    Resume,
    Snapshot,
    Step,
    Stop,
    Suspend,
    Terminate,
    VmState,
)
from merkatd.cluster.plan import Sleep, Wake
from merkatd.market.explanation import hosts_after
from merkatd.market.market_view import market_view
from tests.placement.conformance.place_rules import (
    broken_alone,
    broken_in_group,
    floors_while_all_others_stay,
)

Rule = Callable[[Snapshot, Decision], str]
"""A rule for a decision for market 0, the only one in the snapshot."""

LEAST_WORDS = 3
NEARLY = 1 + 1e-9
KINDS = (Deploy, Migrate, Suspend, Stop, Resume, Terminate, Sleep, Wake)


def _first(problems: Iterator[str]) -> str:
    return next(problems, "")


def _of_vms(decision: Decision, *kinds: type[Step]) -> Iterator[Step]:
    return (step for step in decision.plan if isinstance(step, kinds))


def only_known_things(snapshot: Snapshot, decision: Decision) -> str:
    """Steps name VMs and hosts of the market."""
    vms = set(snapshot.vms.id[snapshot.vms.market == 0].tolist())
    hosts = set(snapshot.hosts.id[snapshot.hosts.market == 0].tolist())
    for step in decision.plan:
        if not isinstance(step, OfHost) and step.vm not in vms:
            return f"VM {step.vm} is not in the market"
        host = getattr(step, "host", None)
        if host is not None and host not in hosts:
            return f"host {host} is not in the market"
    return ""


def only_steps_of_strategies(_snapshot: Snapshot, decision: Decision) -> str:
    """No strategy creates VMs or sets limits."""
    return _first(step.kind for step in decision.plan if not isinstance(step, KINDS))


def one_step_each(_snapshot: Snapshot, decision: Decision) -> str:
    """A VM and a host have at most one step."""
    targets = [step.target for step in decision.plan]
    return _first(target for target in targets if targets.count(target) > 1)


def in_order(_snapshot: Snapshot, decision: Decision) -> str:
    """A step comes after the steps that it waits for."""
    done: set[str] = set()
    for step in decision.plan:
        if not set(step.after) <= done:
            return f"{step.kind} of {step.target} comes too early"
        done.add(step.id)
    return ""


def reasons_in_words(_snapshot: Snapshot, decision: Decision) -> str:
    """Each step and each wish has a reason of some words."""
    said = [step.reason for step in decision.plan] + [wish.reason for wish in decision.wishes]
    return _first(why or "no reason" for why in said if len(why.split()) < LEAST_WORDS)


def deployments(snapshot: Snapshot, decision: Decision) -> str:
    """Only VMs that wait and may be placed start."""
    waits = set(snapshot.vms.id[snapshot.vms.waiting].tolist())
    return _first(f"VM {s.vm}" for s in _of_vms(decision, Deploy) if s.vm not in waits)


def _wrong_move(snapshot: Snapshot, step: Migrate) -> str:
    row = snapshot.vm_row(step.vm)
    state, at = VmState(int(snapshot.vms.state[row])), int(snapshot.vms.host[row])
    if at < 0 or snapshot.hosts.id[at] != step.source or step.source == step.host:
        return f"VM {step.vm} does not leave its host"
    if not snapshot.vms.movable[row]:
        return f"VM {step.vm} is not movable"
    able = (VmState.RUNNING,) if step.live else (VmState.RUNNING, *RESTING)
    return "" if state in able else f"VM {step.vm} is {state.name}"


def live_migrations(snapshot: Snapshot, decision: Decision) -> str:
    """Only running VMs that may be moved leave their host."""
    moves = (step for step in decision.plan.of(Migrate) if step.live)
    return _first(why for step in moves if (why := _wrong_move(snapshot, step)))


def cold_migrations(snapshot: Snapshot, decision: Decision) -> str:
    """VMs that are saved or off are moved cold only."""
    moves = (step for step in decision.plan.of(Migrate) if not step.live)
    return _first(why for step in moves if (why := _wrong_move(snapshot, step)))


def _in_state(
    snapshot: Snapshot, decision: Decision, kind: type[Step], states: tuple[VmState, ...]
) -> str:
    rows = ((step, snapshot.vm_row(step.vm)) for step in _of_vms(decision, kind))
    return _first(f"VM {step.vm}" for step, row in rows if snapshot.vms.state[row] not in states)


def suspensions(snapshot: Snapshot, decision: Decision) -> str:
    """Only running VMs are suspended."""
    return _in_state(snapshot, decision, Suspend, (VmState.RUNNING,))


def stops(snapshot: Snapshot, decision: Decision) -> str:
    """Only VMs on hosts that are in no operation are stopped."""
    return _in_state(snapshot, decision, Stop, (VmState.RUNNING, *RESTING))


def terminations(snapshot: Snapshot, decision: Decision) -> str:
    """No VM in an operation ends."""
    able = tuple(state for state in VmState if state != VmState.BUSY)
    return _in_state(snapshot, decision, Terminate, able)


def resumptions(snapshot: Snapshot, decision: Decision) -> str:
    """Only saved VMs, and those that are off, continue."""
    return _in_state(snapshot, decision, Resume, (VmState.ABSENT, *RESTING))


def _arrivals(
    snapshot: Snapshot, decision: Decision
) -> Iterator[tuple[Deploy | Migrate | Resume, int, int]]:
    """Yield each step that brings a VM to another host, with the rows of VM and host."""
    for step in decision.plan:
        if not isinstance(step, Deploy | Migrate | Resume) or step.host is None:
            continue
        row, at = snapshot.vm_row(step.vm), snapshot.host_row(step.host)
        if snapshot.vms.host[row] != at:
            yield step, row, at


def hosts_that_take_vms(snapshot: Snapshot, decision: Decision) -> str:
    """VMs come to hosts that are on and meet their requirements, also resumed ones."""
    for step, row, at in _arrivals(snapshot, decision):
        if why := broken_alone(snapshot, at, row):
            return f"{step.kind} of VM {step.vm}: {why}"
    return ""


def _final(snapshot: Snapshot, decision: Decision) -> Ints:
    """Return [vms]: the host after the plan, also of VMs that continue on another one."""
    host = hosts_after(snapshot, decision.plan)
    for step in decision.plan.of(Resume):
        if step.host is not None:
            host[snapshot.vm_row(step.vm)] = snapshot.host_row(step.host)
    return host


def room_for_floors(snapshot: Snapshot, decision: Decision) -> str:
    """The floors of a host's VMs fit after each arrival, and while the plan is carried out."""
    host, view = _final(snapshot, decision), market_view(snapshot, 0)
    for step, row, at in _arrivals(snapshot, decision):
        if at not in view.hosts or row not in view.vms:
            continue  # Other rules judge hosts and VMs that take no part.
        there = host[view.vms] == at
        room = view.capacity[int(np.searchsorted(view.hosts, at))]
        if (view.floor[there].sum(axis=0) > room * NEARLY).any():
            return f"{step.kind} of VM {step.vm}"
        if isinstance(step, Resume):
            continue
        if why := floors_while_all_others_stay(snapshot, decision.plan.steps, step):
            return why
    return ""


def groups_of_vms(snapshot: Snapshot, decision: Decision) -> str:
    """Members of VM groups are together or apart, as the groups say."""
    host = _final(snapshot, decision)
    for step, row, _at in _arrivals(snapshot, decision):
        if why := broken_in_group(snapshot, host, row):
            return f"{step.kind} of VM {step.vm}: {why}"
    return ""


def sleep(snapshot: Snapshot, decision: Decision) -> str:
    """A host sleeps that can, is on, and has no VM, also after the plan."""
    host = _final(snapshot, decision)
    for step in decision.plan.of(Sleep):
        row, hosts = snapshot.host_row(step.host), snapshot.hosts
        used = {*host.tolist(), *snapshot.vms.host.tolist(), *snapshot.vms.source.tolist()}
        if not hosts.can_sleep[row] or hosts.state[row] == HostState.OFF or row in used:
            return f"host {step.host}"
    return ""


def wake(snapshot: Snapshot, decision: Decision) -> str:
    """Only a host that sleeps is woken."""
    rows = ((step, snapshot.host_row(step.host)) for step in decision.plan.of(Wake))
    return _first(f"host {step.host}" for step, row in rows if not snapshot.hosts.asleep[row])


def scale(snapshot: Snapshot, decision: Decision) -> str:
    """A wish is for an application with VMs in the market, and for a number of VMs from 0."""
    own = set(snapshot.vms.application[snapshot.vms.market == 0].tolist()) - {-1}
    wrong = (w for w in decision.wishes if w.application not in own or w.replicas < 0)
    return _first(f"application {wish.application}" for wish in wrong)


def finite_amounts(snapshot: Snapshot, decision: Decision) -> str:
    """Each VM gets a finite amount, from nothing to its cap; one that takes no part, nothing."""
    given = decision.allocations
    if given.shape != snapshot.vms.bid.shape or not np.isfinite(given).all() or (given < 0).any():
        return "an amount is no number from 0"
    if (given > np.maximum(snapshot.vms.cap, snapshot.vms.floor) * NEARLY).any():
        return "an amount is above its cap"
    outside = np.ones(len(given), dtype=bool)
    outside[market_view(snapshot, 0).vms] = False
    return "a VM outside gets something" if given[outside].any() else ""


def amounts_of_hosts(snapshot: Snapshot, decision: Decision) -> str:
    """The VMs of a host get no more than it has, or than their floors."""
    host, mine = hosts_after(snapshot, decision.plan), snapshot.vms.market == 0
    mine &= host >= 0
    given, floors = (np.zeros_like(snapshot.hosts.capacity) for _ in range(2))
    np.add.at(given, host[mine], decision.allocations[mine])
    np.add.at(floors, host[mine], snapshot.vms.floor[mine])
    over = (given > np.maximum(snapshot.hosts.capacity, floors) * NEARLY + 1e-9).any(axis=1)
    return f"host {snapshot.hosts.id[over.argmax()]}" if over.any() else ""


def prices(snapshot: Snapshot, decision: Decision) -> str:
    """There is a price from 0 for each market and resource."""
    table = decision.prices
    right = table.shape == (len(snapshot.markets), len(snapshot.resources))
    return "" if right and not np.isnan(table).any() and (table >= 0).all() else "a price is none"


def reasons_of_waiting_vms(snapshot: Snapshot, decision: Decision) -> str:
    """Each VM that waits either starts or has a reason."""
    vms = snapshot.vms
    waits = set(vms.id[vms.waiting & (vms.market == 0)].tolist())
    starts = {step.vm for step in decision.plan.of(Deploy)}
    if starts & set(decision.reasons):
        return "a VM that starts has a reason to wait"
    silent = waits - starts - {vm for vm, why in decision.reasons.items() if why}
    return f"VM {min(silent)} has no reason" if silent else ""


RULES: Mapping[str, Rule] = {
    rule.__name__: rule
    for rule in (
        only_known_things,
        only_steps_of_strategies,
        one_step_each,
        in_order,
        reasons_in_words,
        deployments,
        live_migrations,
        cold_migrations,
        suspensions,
        stops,
        terminations,
        resumptions,
        hosts_that_take_vms,
        room_for_floors,
        groups_of_vms,
        sleep,
        wake,
        scale,
        finite_amounts,
        amounts_of_hosts,
        prices,
        reasons_of_waiting_vms,
    )
}
_BASIC = ("only_known_things", "only_steps_of_strategies")


def broken_rules(snapshot: Snapshot, decision: Decision) -> dict[str, str]:
    """Return what is wrong by the rule that a decision breaks.

    Without known things in it, no other rule can be judged.
    """
    basic = {name: why for name in _BASIC if (why := RULES[name](snapshot, decision))}
    if basic:
        return basic
    return {name: why for name, rule in RULES.items() if (why := rule(snapshot, decision))}
