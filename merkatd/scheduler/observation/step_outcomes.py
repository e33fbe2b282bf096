"""Outcomes of sent steps, judged by later observations and never by OpenNebula's answers.

# Note [How a step is judged]

OpenNebula answers deploy and migrate before the VM's state changes. From the first moment it shows
the target of a migration as the VM's host, and the source again if the migration fails. So until
`settle_s` has passed, an unchanged VM may still move, and a VM that seems to have arrived may never
have left. After that, a VM in a settled state decides the outcome. A VM in a transition has time
until the limit of its step.

Example: VM 7 is migrated from host 1 to host 2 at 0 s, with `settle_s` = 5 and a limit of 1,800 s.
At 3 s it runs on host 2: too early to judge. At 60 s it is busy: the step is still waiting. At 120
s it runs on host 2: the step is confirmed. If it ran on host 1 by then, the step would have expired
with the reason "it runs on host 1". If it were still busy at 1,801 s, the step would have expired
too.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Literal

from merkatd.cluster import (
    RESTING,
    Create,
    Deploy,
    HostState,
    Migrate,
    Resume,
    Sleep,
    Step,
    Stop,
    Suspend,
    Terminate,
    VmState,
    Wake,
)
from merkatd.cluster.columns import row_of
from merkatd.database.scheduler.step_store import StoredStep
from merkatd.scheduler.base.ports import Observation
from merkatd.scheduler.base.settings import Rhythm


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The outcomes of all outstanding steps."""

    confirmed: frozenset[str] = frozenset()
    created: Mapping[str, int] = field(default_factory=dict)
    """By step id: the VM of each confirmed creation."""
    expired: Mapping[str, str] = field(default_factory=dict)
    """By step id: the reason of each expired step."""
    waiting: tuple[StoredStep, ...] = ()
    """The steps without an outcome yet."""
    moves: frozenset[str] = frozenset()
    """The ids of migrations among all these steps."""


@dataclass(frozen=True, slots=True)
class _Look:
    """The observed state of a VM."""

    state: VmState
    words: str
    host: int


_Outcome = Literal[True] | str | None
"""True if the step happened, the reason if it did not, None if that is not settled."""


def judge_steps(
    outstanding: Sequence[StoredStep],
    seen: Observation,
    rhythm: Rhythm,
    *,
    handing: bool = False,
    in_flight: AbstractSet[str] = frozenset(),
) -> Verdicts:
    """Judge each outstanding step by an observation of the cloud.

    If OpenNebula carries out deployments itself (`handing`), a waiting VM may still have its turn,
    because OpenNebula deploys one VM per host at a time. It may begin a migration within an
    interval. Steps whose requests are still `in_flight` are not given up, because they may still be
    sent.
    """
    confirmed, created, expired, waiting = set(), {}, {}, []
    for stored in outstanding:
        sent_s = stored.sent_s if stored.sent_s is not None else stored.planned_s
        age_s = abs(seen.at_s - sent_s)  # a step also ages if its time lies in the future
        outcome = _outcome(stored.step, seen, handing)
        if isinstance(stored.step, Create) and outcome is True:
            created[stored.id] = seen.keys[stored.step.key, stored.step.owner]
        unseen = age_s < _settle_s(stored.step, rhythm, handing) or stored.step.vm in seen.ailing
        asked = stored.id in in_flight
        unseen |= asked and _may_still_happen(stored.step, outcome)
        if unseen and stored.id not in created:
            outcome = None
        if outcome is True:
            confirmed.add(stored.id)
        elif isinstance(outcome, str):
            expired[stored.id] = outcome
        elif not asked and age_s > _limit_s(stored.step, rhythm):
            expired[stored.id] = f"not seen to happen within {_limit_s(stored.step, rhythm):g} s"
        else:
            waiting.append(stored)
    moves = frozenset(step.id for step in outstanding if isinstance(step.step, Migrate))
    return Verdicts(frozenset(confirmed), created, expired, tuple(waiting), moves)


def _outcome(step: Step, seen: Observation, handing: bool) -> _Outcome:
    """Return the outcome of a step if nothing about it may change any more."""
    if isinstance(step, Create):
        return _created(step, seen)
    if isinstance(step, Sleep | Wake):
        return _switched(step, seen)
    if step.kind not in _OUTCOMES:  # hosts answer at once, so a crash interrupted this step
        return "the daemon ended before the host answered"
    vm = _look(seen, step.vm)
    if handing and isinstance(step, Deploy) and _waits(vm):
        return None
    return _with_its_error(_OUTCOMES[step.kind](step, vm), seen.vm_error.get(step.vm))


def _settle_s(step: Step, rhythm: Rhythm, handing: bool) -> float:
    """Return the age of a step before which an unchanged VM proves nothing."""
    if handing and isinstance(step, Migrate):
        return max(rhythm.settle_s, rhythm.interval_s)
    return rhythm.settle_s


def _may_still_happen(step: Step, outcome: _Outcome) -> bool:
    """Return whether an outcome proves nothing while the request is in flight.

    The request may be sent only now. A migration seems to be over as soon as it is sent, and a host
    seems to sleep while the command runs that switches it off.
    """
    return isinstance(outcome, str) or isinstance(step, Migrate | Sleep)


def _limit_s(step: Step, rhythm: Rhythm) -> float:
    if isinstance(step, Wake):
        return rhythm.boot_limit_s
    carries_memory = isinstance(step, Migrate | Suspend | Resume | Stop)
    return rhythm.migration_limit_s if carries_memory else rhythm.step_limit_s


def _look(seen: Observation, vm: int) -> _Look | None:
    row = row_of(seen.vm_id, vm)
    if row is None:
        return None
    state = VmState(int(seen.vm_state[row]))
    return _Look(state, seen.vm_words[row], int(seen.vm_host[row]))


def _with_its_error(outcome: _Outcome, error: str | None) -> _Outcome:
    """Add OpenNebula's error for the VM to the reason why a step did not happen."""
    if error is None or not isinstance(outcome, str):
        return outcome
    return f"{outcome}; OpenNebula says: {error}"


def _waits(vm: _Look | None) -> bool:
    return vm is not None and vm.state is VmState.PENDING


def _created(step: Create, seen: Observation) -> _Outcome:
    vm = seen.keys.get((step.key, step.owner))
    if vm is None:
        return "no VM with its key and its owner was seen"
    row = row_of(seen.vm_id, vm)
    if row is not None and seen.vm_owner[row] != step.owner:
        # Creating a VM and giving it to its owner are two calls. A repeated creation with the same
        # key completes it.
        return f"VM {vm} was created, but does not belong to its owner yet"
    return True


def _arrived(step: Deploy | Migrate, vm: _Look | None) -> _Outcome:
    if vm is None:
        return "the VM is gone"
    if vm.state is VmState.BUSY:
        return None
    if vm.state is VmState.RUNNING:
        return True if vm.host == step.host else f"it runs on host {vm.host}"
    rests = vm.state in RESTING and isinstance(step, Migrate) and not step.live
    if rests and vm.host == step.host:
        return True
    return f"it is {vm.words}"


def _switched(step: Sleep | Wake, seen: Observation) -> _Outcome:
    """Return whether a host sleeps, or is monitored again; it may boot for a long time.

    A sleeping host has an error if it was woken: otherwise it was not.
    """
    row, traits = row_of(seen.host_id, step.host), seen.host_traits
    if row is None:
        return "the host is gone"
    asleep = traits is not None and bool(traits.asleep[row])
    on = HostState(int(seen.host_state[row])) is not HostState.OFF
    if isinstance(step, Sleep):
        return True if asleep else "the host is awake"
    if asleep and step.host not in seen.host_trouble:
        return "the host still sleeps"
    return True if on else None


def _ended(_step: Terminate, vm: _Look | None) -> _Outcome:
    if vm is None:
        return True
    return None if vm.state is VmState.BUSY else f"it is {vm.words}"


def _in_state(*wanted: VmState) -> Callable[[Step, _Look | None], _Outcome]:
    def outcome(_step: Step, vm: _Look | None) -> _Outcome:
        if vm is None:
            return "the VM is gone"
        if vm.state in wanted:
            return True
        return None if vm.state is VmState.BUSY else f"it is {vm.words}"

    return outcome


_OUTCOMES: Mapping[str, Callable[[Any, _Look | None], _Outcome]] = {
    Deploy.kind: _arrived,
    Migrate.kind: _arrived,
    Suspend.kind: _in_state(VmState.SUSPENDED),
    # A saved VM without a host waits for one when it is resumed.
    Resume.kind: _in_state(VmState.RUNNING, VmState.PENDING),
    Stop.kind: _in_state(VmState.ABSENT),
    Terminate.kind: _ended,
}
