"""A step's result is judged by observations, never by the answer to the call."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import (
    Create,
    Deploy,
    Limit,
    Migrate,
    Resume,
    Step,
    Stop,
    Suspend,
    Terminate,
    VmState,
)
from merkatd.database.scheduler.step_store import StepState, StoredStep
from merkatd.scheduler.base.ports import Observation
from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.observation.step_outcomes import Verdicts, judge_steps

RHYTHM = Rhythm(settle_s=5.0, step_limit_s=300.0, migration_limit_s=1800.0)
SENT_S = 100.0

DEPLOY = Deploy(period=1, vm=7, host=2, reason="")
MIGRATE = Migrate(period=1, vm=7, source=1, host=2, reason="")
CREATE = Create(period=1, key="k", template="", owner=0, reason="")


def seen(
    at_s: float,
    state: VmState | None,
    host: int = -1,
    keys: Mapping[tuple[str, int], int] | None = None,
) -> Observation:
    """Return an observation with VM 7 in this state on this host, or without it."""
    there = [] if state is None else [7]
    count = len(there)
    return Observation(
        at_s=at_s,
        host_id=np.array([1, 2]),
        host_name=("a", "b"),
        host_cluster=np.zeros(2, dtype=np.int64),
        host_state=np.zeros(2, dtype=np.int64),
        host_capacity=np.ones((2, 2)),
        host_used=np.ones((2, 2)),
        vm_id=np.array(there, dtype=np.int64),
        vm_name=("vm",) * count,
        vm_state=np.array([state] * count, dtype=np.int64),
        vm_words=("WORDS",) * count,
        vm_host=np.array([host] * count, dtype=np.int64),
        vm_owner=np.zeros(count, dtype=np.int64),
        vm_group=np.zeros(count, dtype=np.int64),
        vm_size=np.ones((count, 2)),
        vm_reserved=np.ones((count, 2)),
        vm_vcpus=np.ones(count, dtype=np.int64),
        vm_movable=[True] * count,
        attributes={},
        keys=keys or {},
        ailing={},
    )


def verdict(
    step: Step,
    state: VmState | None,
    host: int = -1,
    after_s: float = 60.0,
    keys: Mapping[tuple[str, int], int] | None = None,
) -> tuple[str, Verdicts]:
    """Return the judgement of one step that was sent some time before the observation."""
    stored = StoredStep(
        step=step,
        state=StepState.SENT,
        planned_s=SENT_S,
        sent_s=SENT_S,
        ended_s=None,
        reply=None,
    )
    judged = judge_steps([stored], seen(SENT_S + after_s, state, host, keys), RHYTHM)
    words = ["confirmed" for _ in judged.confirmed]
    words += judged.expired.values()
    words += ["waiting" for _ in judged.waiting]
    assert len(words) == 1
    return words[0], judged


@pytest.mark.parametrize(
    ("step", "state", "host", "expected"),
    [
        (DEPLOY, VmState.RUNNING, 2, "confirmed"),
        (DEPLOY, VmState.RUNNING, 1, "it runs on host 1"),
        (DEPLOY, VmState.BUSY, 2, "waiting"),
        (DEPLOY, VmState.PENDING, -1, "it is WORDS"),
        (DEPLOY, VmState.ABSENT, -1, "it is WORDS"),
        (DEPLOY, None, -1, "the VM is gone"),
        (MIGRATE, VmState.RUNNING, 2, "confirmed"),
        (MIGRATE, VmState.RUNNING, 1, "it runs on host 1"),
        (MIGRATE, VmState.BUSY, 2, "waiting"),
        (MIGRATE, VmState.POWERED_OFF, 1, "it is WORDS"),
        (MIGRATE, None, -1, "the VM is gone"),
        (Suspend(period=1, vm=7, reason=""), VmState.SUSPENDED, 1, "confirmed"),
        (Suspend(period=1, vm=7, reason=""), VmState.RUNNING, 1, "it is WORDS"),
        (Resume(period=1, vm=7, reason=""), VmState.RUNNING, 1, "confirmed"),
        (Resume(period=1, vm=7, reason=""), VmState.BUSY, 1, "waiting"),
        (Stop(period=1, vm=7, reason=""), VmState.ABSENT, -1, "confirmed"),
        (Terminate(period=1, vm=7, reason=""), None, -1, "confirmed"),
        (Terminate(period=1, vm=7, reason=""), VmState.RUNNING, 1, "it is WORDS"),
    ],
)
def test_a_step_of_a_settled_vm_is_judged(
    step: Step, state: VmState | None, host: int, expected: str
) -> None:
    """A step of a VM in transition waits."""
    assert verdict(step, state, host)[0] == expected


@pytest.mark.parametrize("step", [DEPLOY, MIGRATE])
@pytest.mark.parametrize("state", [VmState.PENDING, VmState.RUNNING])
def test_no_step_is_judged_right_after_it_was_sent(step: Step, state: VmState) -> None:
    """OpenNebula answers first and changes the state later."""
    assert verdict(step, state, 2, after_s=1.0)[0] == "waiting"


def test_a_step_that_exceeds_its_limit_is_given_up_with_the_limit_as_reason() -> None:
    """Steps that move memory have a longer limit."""
    assert verdict(DEPLOY, VmState.BUSY, 2, 301.0)[0] == "not seen to happen within 300 s"
    assert verdict(MIGRATE, VmState.BUSY, 2, 301.0)[0] == "waiting"
    assert verdict(MIGRATE, VmState.BUSY, 2, 1801.0)[0] == "not seen to happen within 1800 s"


def test_an_unreadable_vm_does_not_count_as_gone() -> None:
    """Its steps wait until it can be read again, or until their limit."""
    stored = StoredStep(
        step=Terminate(period=1, vm=7, reason=""),
        state=StepState.SENT,
        planned_s=SENT_S,
        sent_s=SENT_S,
        ended_s=None,
        reply=None,
    )
    cloud = replace(seen(SENT_S + 60.0, None), ailing={7: "no STATE"})
    assert judge_steps([stored], cloud, RHYTHM).waiting == (stored,)


def test_a_creation_is_found_by_its_key_or_given_up() -> None:
    """The VM has the key from the moment of its creation."""
    assert verdict(CREATE, None, after_s=0.5, keys={("k", 0): 7})[1].created == {CREATE.id: 7}
    assert verdict(CREATE, None, after_s=0.5)[0] == "waiting"
    assert verdict(CREATE, None)[0] == "no VM with its key and its owner was seen"


def test_a_created_vm_without_its_owner_is_given_up_to_be_retried() -> None:
    """Creation and change of owner are two calls, and a crash can come between them."""
    other = replace(CREATE, owner=3)
    assert verdict(CREATE, VmState.PENDING, keys={("k", 0): 7})[1].created == {CREATE.id: 7}
    outcome = verdict(other, VmState.PENDING, keys={("k", 3): 7})
    assert outcome[0] == "VM 7 was created, but does not belong to its owner yet"
    assert outcome[1].created == {}


def test_a_step_on_a_host_interrupted_by_a_crash_is_given_up() -> None:
    """The limits in force are read again and corrected where they differ."""
    limit = Limit(
        period=1,
        vm=7,
        reason="",
        vcpu_quota_us=1000,
        global_quota_us=None,
        quota_period_us=100_000,
        shares=2,
    )
    assert verdict(limit, VmState.RUNNING, 1)[0] == "the daemon ended before the host answered"


def test_a_step_from_a_clock_that_was_ahead_is_given_up() -> None:
    """Otherwise it would block its VM until that time."""
    assert verdict(MIGRATE, VmState.BUSY, 2)[0] == "waiting"
    assert "not seen to happen" in verdict(MIGRATE, VmState.BUSY, 2, after_s=-86_400.0)[0]
