"""The reversal of an executed plan: a plan that migrates its VMs back.

Only migrations have a reverse. A VM that the plan started goes on. A VM that it suspended or
stopped was not paid for, so a period after its return would suspend it again. Strategies decide on
hosts that sleep. A VM that is elsewhere by now stays there. The answer names each step that is left
out, with its reason.

# Note [Steps back are no gain]

A strategy would keep the VMs where the plan moved them. So the restricted decision sees the VMs of
an approved reversal as leaving their hosts, like those of a drained host, and the place before the
plan is the only other host that it may choose. Room, limits on migrations and all constraints apply
as for any other step. Example: plan 4 moved VM 7 from host 1 to host 2. Plan 5 reverses it: VM 7
must leave host 2 and may go to host 1. If host 1 is full by then, VM 7 stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from merkatd.cluster import HostState, Migrate, VmState
from merkatd.database.scheduler.plan_store import ProposedStep, StoredPlan
from merkatd.database.scheduler.step_store import StepState
from merkatd.scheduler.observation.observed import Observed

STAYS = {
    "deploy": "a VM that the plan started goes on; its owner ends it",
    "suspend": "its owner could not pay, so it would be suspended again; an owner with credits"
    " resumes it in OpenNebula",
    "resume": "its limit order decides when it runs",
    "stop": "its limit order decides when it runs; without one, its owner resumes it in OpenNebula",
    "sleep": "strategies decide which hosts sleep",
    "wake": "strategies decide which hosts sleep",
}
_NO_HOST = -1


@dataclass(frozen=True, slots=True)
class LeftOutStep:
    """A step of a plan that is not reversed."""

    number: int
    kind: str
    vm: int
    """-1 for a step on a host."""
    reason: str

    @property
    def text(self) -> str:
        """Return the step and the reason in words."""
        whose = f" of VM {self.vm}" if self.vm >= 0 else " of a host"
        return f"{self.kind}{whose} (step {self.number}): {self.reason}"


@dataclass(frozen=True, slots=True)
class PlanReversal:
    """The steps that undo a plan."""

    steps: tuple[ProposedStep, ...]
    left_out: tuple[LeftOutStep, ...]


def reversal_of(plan: StoredPlan, observed: Observed) -> PlanReversal:
    """Return the steps that undo a plan in the observed cloud; skipped steps need none."""
    scene = _Scene(observed)
    steps, left_out = [], []
    for number, step in enumerate(plan.steps, start=1):
        if step.skipped:
            continue
        why = scene.obstacle(step)
        if why is not None or step.source is None:
            left_out.append(LeftOutStep(number, step.kind, step.vm, why or "it left no host"))
            continue
        reason = f"back to where it was before plan {plan.id}"
        steps.append(
            ProposedStep(
                kind=Migrate.kind, vm=step.vm, host=step.source, source=step.host, reason=reason
            )
        )
    return PlanReversal(tuple(steps), tuple(left_out))


def possible_steps(plan: StoredPlan, observed: Observed) -> frozenset[int]:
    """Return the ids of the VMs of a reversal that are still where its plan moved them."""
    host = _hosts_of_vms(observed)
    return frozenset(step.vm for step in plan.steps if host.get(step.vm) == step.source)


class _Scene:
    """The observed VMs and hosts, by id."""

    def __init__(self, observed: Observed) -> None:
        seen = observed.observation
        self._host = _hosts_of_vms(observed)
        self._vm_state = dict(zip(seen.vm_id.tolist(), seen.vm_state.tolist(), strict=True))
        self._words = dict(zip(seen.vm_id.tolist(), seen.vm_words, strict=True))
        self._host_state = dict(zip(seen.host_id.tolist(), seen.host_state.tolist(), strict=True))
        self._host_name = dict(zip(seen.host_id.tolist(), seen.host_name, strict=True))
        self._busy = {stored.step.vm for stored in observed.verdicts.waiting}

    def obstacle(self, step: ProposedStep) -> str | None:
        """Return why a step is not reversed; None if it can be."""
        if step.kind != Migrate.kind:
            return STAYS.get(step.kind, f"a step {step.kind} has no reverse")
        if not (step.became or "").startswith(StepState.CONFIRMED):
            return f"it was not done ({step.became or 'not sent'})"
        at = self._host.get(step.vm)
        if at is None or at != step.host:
            where = "on no host" if at == _NO_HOST else f"on {self._named(at)}"
            return "the VM is gone" if at is None else f"the VM is {where} by now"
        if step.vm in self._busy:
            return "another step of the VM is under way"
        return self._closed(step.vm, step.source)

    def _closed(self, vm: int, host: int | None) -> str | None:
        """Return why the VM can't migrate, or no VM can go to the host now; None if it can."""
        if self._vm_state[vm] != VmState.RUNNING:
            return f"the VM is {self._words[vm]}; only running VMs migrate"
        state = self._host_state.get(_NO_HOST if host is None else host)
        if host is None or state is None:
            return f"host {self._named(host)} is gone"
        if state == HostState.ON:
            return None
        word = HostState(state).name.lower()
        return f"host {self._named(host)} is {'unreachable' if word == 'off' else word}"

    def _named(self, host: int | None) -> str:
        named: str = self._host_name.get(_NO_HOST if host is None else host, str(host))
        return named


def _hosts_of_vms(observed: Observed) -> Mapping[int, int]:
    seen = observed.observation
    return dict(zip(seen.vm_id.tolist(), seen.vm_host.tolist(), strict=True))
