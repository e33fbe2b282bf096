"""The steps of a plan in virtual time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from merkatd.cluster import (
    Deploy,
    Hosts,
    Ints,
    Migrate,
    OnHost,
    Plan,
    Resume,
    Scale,
    Sleep,
    Step,
    Stop,
    Suspend,
    Terminate,
    Wake,
)
from merkatd.cluster.columns import row_of
from merkatd.placement.changes.plan_changes import ready_steps
from simulator.kernel.kernel_state import GuestPhase, KernelState, rows_array
from simulator.kernel.vm_operations import VmOperations
from simulator.workloads.vm_requests import VmRequests

_OVER = (GuestPhase.AWAITED, GuestPhase.ENDED, GuestPhase.REJECTED)
_NO_VM = -1
_IN_OPERATION = [
    *(int(GuestPhase.STARTING), int(GuestPhase.MIGRATING), int(GuestPhase.RELOCATING)),
    *(int(GuestPhase.SUSPENDING), int(GuestPhase.STOPPING)),
]
_LIVING = [int(phase) for phase in GuestPhase if phase not in _OVER]


class PlanSteps:
    """Begins the steps of plans, as the daemon sends them.

    A step that must come after an operation is postponed: the next period decides again. With
    `whole`, it begins as soon as the operation has ended, but not after the next period. Limits,
    pins and balloons of guests are done at once and have no effect here. The kernel refuses steps
    that it does not simulate: new VMs of platforms, and moves of VMs that do not run.
    """

    def __init__(
        self,
        operations: VmOperations,
        hosts: Hosts,
        state: KernelState,
        requests: VmRequests,
        *,
        whole: bool = False,
    ) -> None:
        self._operations, self._hosts = operations, hosts
        self._state, self._requests, self._whole = state, requests, whole
        self._waiting: list[Step] = []
        self._begun: dict[str, int] = {}
        """The VM of each step of the present plan that was begun, or done at once."""
        self._do: Mapping[type[Step], Callable[[Any], bool]] = {
            Deploy: self._deploy,
            Migrate: self._migrate,
            Suspend: lambda step: operations.suspend(step.vm),
            Stop: lambda step: operations.stop(step.vm),
            Resume: lambda step: step.host is None and operations.resume(step.vm),
            Terminate: lambda step: operations.terminate(step.vm),
            Sleep: lambda step: operations.sleep(self._row(step.host)),
            Wake: lambda step: operations.wake(self._row(step.host)),
        }

    def begin(self, plan: Plan) -> None:
        """Begin the steps that wait for no operation, in order."""
        on_hosts = {step.id: step for step in plan if isinstance(step, OnHost)}
        done: set[str] = set()
        while new := [
            step_id
            for step_id, step in on_hosts.items()
            if step_id not in done and done.issuperset(step.after)
        ]:
            done.update(new)
        ready, _ = ready_steps(plan, done, set())
        totals = self._operations.totals
        late = [step for step in plan if step.id not in on_hosts and step.id not in ready]
        totals.postponed += len(self._waiting) if self._whole else len(late)
        self._waiting = late if self._whole else []
        self._begun = dict.fromkeys(done, _NO_VM)
        for step in ready.values():
            self._do_step(step)

    def _do_step(self, step: Step) -> None:
        act = self._do.get(type(step))
        if act is None:
            self._operations.totals.refused += 1
        elif act(step):
            self._begun[step.id] = step.vm

    def go_on(self) -> None:
        """Begin the waiting steps of the present plan whose operations have ended."""
        if not self._waiting:
            return
        busy = np.isin(self._state.phase, _IN_OPERATION)
        over = {step for step, vm in self._begun.items() if vm == _NO_VM or not busy[vm]}
        ready = [step for step in self._waiting if over.issuperset(step.after)]
        if ready:
            self._waiting = [step for step in self._waiting if not over.issuperset(step.after)]
            for step in ready:
                self._do_step(step)

    def scale(self, wishes: Sequence[Scale]) -> Ints:
        """End the newest VMs of applications that have more than the wished numbers.

        Return the spare VMs that arrive in applications that have fewer. A wish that needs more
        spare VMs than there are counts as a refused step.
        """
        arriving = list[int]()
        operations, state, asked = self._operations, self._state, self._requests
        for wish in wishes:
            own = asked.owner == wish.application
            lives = np.flatnonzero(own & np.isin(state.phase, _LIVING))
            spare = np.flatnonzero(own & asked.spare & (state.phase == GuestPhase.AWAITED))
            more = wish.replicas - len(lives)
            arriving += spare[: max(more, 0)].tolist()
            operations.totals.refused += more > len(spare)
            ends = lives[::-1][: max(-more, 0)]
            for vm in ends.tolist():
                operations.terminate(vm)
        return rows_array(arriving)

    def _row(self, host: int) -> int:
        row = row_of(self._hosts.id, host)
        if row is None:
            raise KeyError(f"the plan names host {host}, which does not exist")
        return row

    def _deploy(self, step: Deploy) -> bool:
        rows = rows_array([self._row(step.host)])
        return len(self._operations.deploy(rows_array([step.vm]), rows)) > 0

    def _migrate(self, step: Migrate) -> bool:
        return self._operations.migrate(step.vm, self._row(step.host), live=step.live)
