"""The steps of a period, sent to the simulated cloud."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from merkatd.cluster import Create, Deploy, Migrate, Plan, Resume, Stop, Terminate
from simulator.market.market_run import OperationCounts
from simulator.orders.patient_platform import PatientPlatform
from simulator.orders.simulated_vms import SimulatedVms

_SENT = Terminate | Stop | Resume | Deploy | Migrate
"""The steps of existing VMs."""


class StepSender:
    """Sends steps, and counts the operations."""

    def __init__(
        self,
        vms: SimulatedVms,
        platforms: Sequence[PatientPlatform],
        counts: OperationCounts,
    ) -> None:
        self._vms, self._platforms, self._counts = vms, platforms, counts
        self._send: Mapping[type, Callable[[list[Any]], None]] = {
            Terminate: lambda steps: vms.terminate([step.vm for step in steps]),
            Resume: lambda steps: vms.resume([step.vm for step in steps]),
            Stop: self._save,
            Deploy: self._deploy,
            Migrate: self._migrate,
        }

    def send(self, plan: Plan) -> None:
        """Send a plan's steps; a VM with an outstanding step gets no other.

        A step that must come after another one is not sent: the next period decides again.
        """
        for new in plan.of(Create):
            platform = self._platforms[new.owner]
            memory_mib = platform.tenancy.application.memory_mib
            platform.vms.append(self._vms.create(new.owner, memory_mib))
        sent: dict[tuple[type, int], list[Any]] = {}
        taken: set[int] = set()
        for step in plan:
            if not isinstance(step, _SENT) or step.vm in taken or step.after:
                continue
            taken.add(step.vm)
            if not self._vms.is_outstanding(step.vm):
                owner = int(self._vms.owner[step.vm])
                sent.setdefault((type(step), owner), []).append(step)
        for (kind, _), steps in sent.items():
            self._send[kind](steps)

    def _save(self, steps: Sequence[Stop]) -> None:
        self._counts.suspensions += 1
        self._counts.vm_suspensions += len(steps)
        self._vms.save([step.vm for step in steps])

    def _deploy(self, steps: Sequence[Deploy]) -> None:
        if self._vms.was_saved(steps[0].vm):
            self._counts.resumes += 1
            self._counts.vm_resumes += len(steps)
        self._vms.deploy([step.vm for step in steps], [step.host for step in steps])

    def _migrate(self, steps: Sequence[Migrate]) -> None:
        self._counts.migrations += len(steps)
        for step in steps:
            self._vms.migrate(step.vm, step.host)
