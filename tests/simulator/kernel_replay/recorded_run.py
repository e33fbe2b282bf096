"""A small run of the kernel, recorded: what happened to its VMs and hosts, and what was decided."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np

from merkatd.cluster import Decision, Migrate, Snapshot
from merkatd.placement.contract import Pricing, StrategyEntry
from simulator.kernel.data_center import DataCenter
from simulator.kernel.event_queue import EventKind
from simulator.kernel.kernel_deciders import StrategyDecider
from simulator.kernel.kernel_run import KernelRun
from simulator.kernel.kernel_state import GuestPhase
from simulator.workloads.vm_requests import VmRequests


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """Something that the cloud does not decide: a replay lets it happen at the same time."""

    at_s: float
    kind: EventKind
    rows: tuple[int, ...]
    """The VMs or hosts."""


@dataclass(frozen=True, slots=True, eq=False)
class DecidedPeriod:
    """A period: its snapshot and its decision."""

    at_s: float
    snapshot: Snapshot
    decision: Decision
    withheld: int = 0
    """The number of migrations of the plan that do not begin in the period."""

    @property
    def steps(self) -> list[tuple[str, int, int]]:
        """The steps that place VMs: kind, VM and host."""
        return sorted(
            (type(step).__name__, getattr(step, "vm", -1), getattr(step, "host", -1))
            for step in self.decision.plan
        )


_OTHER: Final = {"hosts": {"name", "used"}, "vms": {"name", "owner", "application"}}
"""Columns that differ: the kernel limits no guest to its share, and has an application a tenant."""
_TIMES: Final = ("moved_at_s", "started_s")


def differences(
    one: DecidedPeriod, other: DecidedPeriod, later_s: float, but: Container[str] = ()
) -> list[str]:
    """Return how two periods differ; the clock of the other one is `later_s` ahead.

    Columns of these names are not compared.
    """
    found = []
    if one.steps != other.steps:
        found.append(f"steps: {one.steps} and {other.steps}")
    for name in ("prices", "allocations"):
        amounts = getattr(one.decision, name), getattr(other.decision, name)
        if amounts[0].shape != amounts[1].shape or not np.allclose(*amounts, rtol=1e-9, atol=1e-9):
            found.append(f"{name}: {amounts[0].tolist()} and {amounts[1].tolist()}")
    for table, others in _OTHER.items():
        mine, theirs = getattr(one.snapshot, table), getattr(other.snapshot, table)
        for column in fields(mine):
            if (
                column.name in others
                or column.name in but
                or isinstance(getattr(mine, column.name), dict)
            ):
                continue
            given = np.asarray(getattr(mine, column.name), dtype=float)
            same = np.asarray(getattr(theirs, column.name), dtype=float)
            same = same - later_s if column.name in _TIMES else same
            if given.shape != same.shape or not np.allclose(given, same, equal_nan=True, atol=1e-6):
                found.append(f"{table}.{column.name}: {given.tolist()} and {same.tolist()}")
    return found


@dataclass(frozen=True, slots=True, eq=False)
class RecordedRun:
    """The events of a run and its periods."""

    events: Sequence[RecordedEvent]
    periods: Sequence[DecidedPeriod]
    hosts: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    """By VM: when it began to compute on which host."""


class _Recorded(StrategyDecider):
    """A strategy whose decisions are kept."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.periods: list[DecidedPeriod] = []

    def begun(self, snapshot: Snapshot, decision: Decision) -> Decision:
        made = super().begun(snapshot, decision)
        last, begin = self.periods[-1], sum(not step.after for step in made.plan.of(Migrate))
        self.periods[-1] = replace(
            last,
            decision=replace(last.decision, allocations=made.allocations),
            withheld=len(decision.plan.of(Migrate)) - begin,
        )
        return made

    def decision(self, snapshot: Snapshot, seed: int) -> Decision:
        made = super().decision(snapshot, seed)
        self.periods.append(DecidedPeriod(snapshot.now_s, snapshot, made))
        return made


def record_run(
    center: DataCenter,
    asked: VmRequests,
    entry: StrategyEntry,
    pricing: Pricing,
    span_s: float,
    seed: int,
) -> RecordedRun:
    """Run the kernel to its end, and return what happened."""
    decider = _Recorded(entry, pricing=pricing)
    run = KernelRun(center, asked, decider, span_s=span_s, seed=seed)
    events: list[RecordedEvent] = []
    hosts: dict[int, list[tuple[float, int]]] = {}
    before = run.state.phase.copy()
    cut = run.state.is_cut_off.copy()
    while (batch := run.step()) is not None:
        state, rows = run.state, batch.rows.tolist()
        if batch.kind is EventKind.VM_ARRIVES or batch.kind is EventKind.PERIOD:
            events.append(RecordedEvent(batch.at_s, batch.kind, tuple(rows)))
        elif batch.kind is EventKind.VM_ENDS:
            ended = [vm for vm in rows if before[vm] != state.phase[vm] == GuestPhase.ENDED]
            if ended:
                events.append(RecordedEvent(batch.at_s, batch.kind, tuple(ended)))
        changed = np.flatnonzero(cut != state.is_cut_off)
        if len(changed):
            events.append(RecordedEvent(batch.at_s, batch.kind, tuple(changed.tolist())))
        began = (state.phase == GuestPhase.RUNNING) & (before != GuestPhase.RUNNING)
        for vm in np.flatnonzero(began).tolist():
            hosts.setdefault(vm, []).append((batch.at_s, int(state.host[vm])))
        before, cut = state.phase.copy(), state.is_cut_off.copy()
    return RecordedRun(events, decider.periods, hosts)
