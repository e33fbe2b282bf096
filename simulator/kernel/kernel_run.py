"""A run of a data centre: from event to event, and from period to period."""

from collections.abc import Callable, Mapping

import numpy as np

from merkatd.cluster import Bools, Floats, Ints
from simulator.kernel.data_center import DataCenter
from simulator.kernel.declared.declared_load import DeclaredLoad
from simulator.kernel.event_queue import EventBatch, EventKind, EventQueue
from simulator.kernel.kernel_deciders import KernelDecider, KernelMoment
from simulator.kernel.kernel_snapshot import KernelSnapshots
from simulator.kernel.kernel_state import GuestPhase, KernelState
from simulator.kernel.outcome_columns import KernelOutcome, OutcomeColumns
from simulator.kernel.plan_steps import PlanSteps
from simulator.kernel.unit_outages import Outages, draw_outages
from simulator.kernel.use_monitoring import UseMonitoring
from simulator.kernel.vm_operations import VmOperations
from simulator.workloads.declared_work import NO_WORK, DeclaredWork
from simulator.workloads.random_streams import StreamPurpose, stream_of
from simulator.workloads.vm_requests import VmRequests

_NONE: Ints = np.zeros(0, dtype=np.int64)
_EXPECTED = (EventKind.VM_ENDS, EventKind.OPERATION_ENDS, EventKind.PATIENCE_ENDS)
"""Events that do not happen if something else happened to their VMs before."""


class UnfinishedRunError(RuntimeError):
    """Raised for a run that takes longer than its span."""


class KernelRun:
    """A data centre from its begin to the end of a span."""

    def __init__(
        self,
        center: DataCenter,
        requests: VmRequests,
        decider: KernelDecider,
        *,
        span_s: float,
        seed: int = 0,
        declared: DeclaredWork = NO_WORK,
    ) -> None:
        if center.hosts.capacity.shape[1] != len(requests.resources):
            raise ValueError(
                f"hosts: must have a capacity for each of {', '.join(requests.resources)}"
                f" (got {center.hosts.capacity.shape[1]} amounts)"
            )
        if not 0 < span_s < np.inf:
            raise ValueError(f"span_s: must be greater than 0 and finite (got {span_s})")
        self.center, self.requests, self.span_s = center, requests, span_s
        self._seed, self._decider = seed, decider
        self.state = KernelState(center.hosts, requests)
        self.queue = EventQueue()
        self.load = DeclaredLoad(declared, requests, self.state)
        self.operations = VmOperations(center, requests, self.state, self.queue, self.load)
        self.monitoring = UseMonitoring(
            center, requests, self.state, decider.history_samples, self.load
        )
        self.outcome = OutcomeColumns(center, requests)
        self.outages = Outages(center.hosts)
        self.periods = 0
        self._snapshots = KernelSnapshots(center, requests, self.state, self.monitoring, self.load)
        self._steps = PlanSteps(
            self.operations, center.hosts, self.state, requests, whole=center.rhythm.whole_plans
        )
        self._fits = fits_somewhere(self.state.floor, self.state.capacity[self.state.takes_vms])
        self._is_due = False
        self._handlers: Mapping[EventKind, Callable[[Ints], object]] = {
            EventKind.UNIT_REPAIRED: lambda rows: self._set_failed(rows, failed=False),
            EventKind.VM_ENDS: self._end,
            EventKind.OPERATION_ENDS: self.operations.finish,
            EventKind.HOST_WOKEN: self._wake,
            EventKind.UNIT_FAILS: lambda rows: self._set_failed(rows, failed=True),
            EventKind.VM_ARRIVES: self._arrive,
            EventKind.PATIENCE_ENDS: self._reject,
            EventKind.MONITORING: self._monitor,
            EventKind.PERIOD: self._decide,
        }
        self._prepare()

    def _prepare(self) -> None:
        """Add the events that are known before the run."""
        rhythm, queue = self.center.rhythm, self.queue
        arrives = (self.requests.arrival_s < self.span_s) & ~self.requests.spare
        soon = np.flatnonzero(arrives)
        queue.prepare(EventKind.VM_ARRIVES, self.requests.arrival_s[soon], soon)
        for kind, every_s in (
            (EventKind.MONITORING, rhythm.monitor_s),
            (EventKind.PERIOD, rhythm.period_s),
        ):
            count = int(np.ceil(self.span_s / every_s))
            times: Floats = np.arange(count, dtype=np.float64) * every_s
            queue.prepare(kind, times, np.zeros(count, dtype=np.int64))
        failures, repairs = draw_outages(
            self.outages, self.center.rates, self.center.repair_s, self.span_s, self._seed
        )
        queue.prepare(EventKind.UNIT_FAILS, *failures)
        queue.prepare(EventKind.UNIT_REPAIRED, *repairs)

    def run(self) -> KernelOutcome:
        """Let time pass until the end of the span, and return the outcome."""
        while self.step() is not None:
            pass
        return self.result()

    def run_until(self, is_over: Callable[[], bool]) -> KernelOutcome:
        """Let time pass until the function returns true, and return the outcome.

        Raise UnfinishedRunError if the span ends before.
        """
        while not is_over():
            if self.step() is None:
                raise UnfinishedRunError(f"the run had not ended after {self.span_s:g} s")
        return self.result()

    def result(self) -> KernelOutcome:
        """Return the outcome so far."""
        return KernelOutcome(
            self.outcome.columns(),
            self.state,
            self.operations.totals,
            np.array(self.operations.volumes, dtype=float),
            self.periods,
        )

    def step(self) -> EventBatch | None:
        """Let the next event happen, with all of its kind at that moment.

        Return None at the end of the span, which is monitored once more.
        """
        if not self.queue.next_s < self.span_s:
            if self.state.now_s < self.span_s:
                self.state.now_s = self.span_s
                self._monitor(_NONE)
            return None
        batch = self.queue.pop()
        self.state.now_s = batch.at_s
        rows = batch.rows
        if batch.kind in _EXPECTED:
            rows = rows[self.state.turn[rows] == batch.turns]
        if len(rows):
            self._handlers[batch.kind](rows)
            self._steps.go_on()
            self._is_due |= batch.kind < EventKind.MONITORING
        if self._is_due and self.center.rhythm.decide_at_events and self.queue.next_s > batch.at_s:
            self._decide(rows)
        return batch

    # -- events -------------------------------------------------------------------------------

    def _arrive(self, vms: Ints) -> None:
        fits = self._fits[vms]
        self.state.enter(vms[~fits], GuestPhase.REJECTED, 0.0)
        accepted = vms[fits]
        self.state.enter(accepted, GuestPhase.PENDING, 0.0)
        ends = np.full(len(accepted), self.state.now_s + self.center.rhythm.patience_s)
        self.queue.push(EventKind.PATIENCE_ENDS, ends, accepted, self.state.turn[accepted])

    def _reject(self, vms: Ints) -> None:
        self.state.enter(vms, GuestPhase.REJECTED, 0.0)

    def _end(self, vms: Ints) -> None:
        # OpenNebula ends no VM during its migration; it ends on arrival.
        ends = vms[self.state.phase[vms] != GuestPhase.MIGRATING]
        self.operations.end_or_go_on(ends)

    def _wake(self, hosts: Ints) -> None:
        self.state.is_waking[hosts], self.state.changed[hosts] = False, True

    def _set_failed(self, units: Ints, *, failed: bool) -> None:
        self.outages.failed[units] = failed
        hosts = self.outages.affected(units)
        cut = self.outages.cut_off(hosts)
        before = self.state.is_cut_off[hosts]
        self.state.is_cut_off[hosts] = cut
        self.state.changed[hosts[cut != before]] = True
        lost = hosts[cut & ~before]
        if len(lost):
            self.operations.lose(lost, self.requests.lifetime_s)

    def _monitor(self, _rows: Ints) -> None:
        self.monitoring.measure()
        self.outcome.record(self.state, self.monitoring, self.operations.totals)

    def _decide(self, _rows: Ints) -> None:
        self._is_due = False
        self.periods += 1  # as in the daemon, the first period has the number 1
        self.state.notice_moves()
        changed = np.flatnonzero(self.state.changed)
        self.state.changed[changed] = False
        moment = KernelMoment(
            self.periods,
            self.state,
            self.state.rows_in(GuestPhase.PENDING),
            changed,
            lambda: stream_of(self._seed, StreamPurpose.PLACEMENT, number=self.periods),
            self._seed,
            lambda reserve: self._snapshots.snapshot(self.periods, reserve),
        )
        orders = self._decider.decide(moment)
        if orders.prices is not None:
            self.outcome.prices = np.where(np.isfinite(orders.prices), orders.prices, np.nan)
        self.operations.deploy(orders.vms, orders.hosts)
        if orders.given is not None:
            self.operations.allocate(orders.given.vms, orders.given.amounts)
        if len(orders.plan):
            self._steps.begin(orders.plan)
        if orders.wishes:
            wished = self._steps.scale(orders.wishes)
            self.state.waits_since_s[wished] = self.state.now_s
            self._arrive(wished)
            self._is_due = len(wished) > 0


def fits_somewhere(floor: Floats, capacity: Floats) -> Bools:
    """Return [vms]: whether any host has the capacity for the VM alone."""
    sizes = np.unique(capacity, axis=0) if len(capacity) else capacity
    sizes = sizes[np.argsort(-sizes.sum(axis=1), kind="stable")]
    largest = list[Floats]()
    for size in sizes:
        if not any((size <= other).all() for other in largest):
            largest.append(size)
    fits = np.zeros(len(floor), dtype=bool)
    for size in largest:
        fits |= (floor <= size).all(axis=1)
    return fits
