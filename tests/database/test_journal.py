"""The journal has at most one outstanding placement step per VM, and steps end once."""

from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from merkatd.cluster import (
    Balloon,
    Create,
    Deploy,
    Limit,
    Migrate,
    Pin,
    Resume,
    Step,
    Stop,
    Suspend,
    Terminate,
)
from merkatd.database.base.schema import CHUNK
from merkatd.database.base.transactions import LostRaceError
from merkatd.database.ledger import account_store, budget_store
from merkatd.database.retention import Horizon, delete_old_rows
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.journal import StepFilter
from merkatd.database.scheduler.step_store import STEPS, StepState, to_row
from tests.database.begun import begin_periods, deploy
from tests.servers import locking

KEY = "3f0c5a52-6f0b-4a55-9f7e-0d3d4b3a9a10"


def create(period: int = 1, key: str = KEY) -> Create:
    """Return a step that creates a VM."""
    return Create(period=period, key=key, template="CPU=1", owner=5, reason="grow")


def one_of_each() -> list[Step]:
    """Return a step of each kind with all fields set."""
    common: dict[str, Any] = {"period": 1, "reason": "weil's so ist \N{SNOWMAN}"}
    return [
        Create(key=KEY, template="NAME=a\nCPU=1", owner=5, after=("x", "y"), **common),
        Deploy(vm=1, host=2, **common),
        Migrate(vm=2, source=1, host=3, gain=0.25, **common),
        Suspend(vm=3, **common),
        Resume(vm=4, **common),
        Stop(vm=5, **common),
        Terminate(vm=6, **common),
        Limit(
            vm=1,
            vcpu_quota_us=25_000,
            global_quota_us=None,
            quota_period_us=100_000,
            shares=512,
            **common,
        ),
        Pin(vm=1, cores=((0, 1), (2,), ()), **common),
        Balloon(vm=1, memory_mib=512, **common),
    ]


def states(connection: sa.Connection) -> dict[str, StepState]:
    """Return the state of each step of period 1."""
    return {step.id: step.state for step in journal.of_plan(connection, 1)}


def test_steps_survive_storage(connection: sa.Connection) -> None:
    """Each kind of step is read back unchanged, in the plan's order."""
    begin_periods(connection)
    steps = one_of_each()
    assert journal.record(connection, steps, 3.0).left_out == {}
    find = journal.outstanding(connection)
    assert [stored.step for stored in find] == steps
    assert {(stored.state, stored.planned_s, stored.sent_s) for stored in find} == {
        (StepState.PLANNED, 3.0, None)
    }


def test_a_vm_has_one_outstanding_placement_step(connection: sa.Connection) -> None:
    """A second step is left out with the reason until the first step has ended."""
    begin_periods(connection, 2)
    first, second = deploy(1), Suspend(period=2, vm=1, reason="unpaid")
    journal.record(connection, [first], 0.0)
    recorded = journal.record(connection, [second], 1.0)
    assert recorded.recorded == ()
    assert recorded.left_out == {second.id: f"step {first.id} of VM 1 is outstanding"}
    journal.refuse(connection, {first.id: "no capacity"}, 2.0)
    assert journal.record(connection, [second], 3.0).recorded == (second,)


def test_limits_do_not_wait_for_placement(connection: sa.Connection) -> None:
    """A VM can be limited, pinned and ballooned during a migration."""
    begin_periods(connection)
    steps = [step for step in one_of_each() if step.vm == 1]
    assert len(journal.record(connection, steps, 0.0).recorded) == 4


def test_the_database_enforces_the_unique_key(connection: sa.Connection) -> None:
    """The database rejects a second outstanding step and a second live creation."""
    begin_periods(connection, 2)
    journal.record(connection, [deploy(1), create()], 0.0)
    for double in (deploy(1, period=2), create(period=2)):
        with pytest.raises(sa.exc.IntegrityError), connection.begin_nested():
            connection.execute(sa.insert(STEPS), to_row(double, 0, 1.0))


def test_steps_that_depend_on_a_left_out_step_are_left_out(connection: sa.Connection) -> None:
    """If a required step is left out, the steps that wait for it are left out too."""
    begin_periods(connection, 2)
    journal.record(connection, [Suspend(period=1, vm=1, reason="unpaid")], 0.0)
    blocked = Migrate(period=2, vm=1, source=1, host=2, reason="make room")
    behind = deploy(2, period=2, after=(blocked.id,))
    last = deploy(3, period=2, after=(behind.id,))
    free = deploy(4, period=2, after=("another plan's",))
    recorded = journal.record(connection, [blocked, behind, last, free], 1.0)
    assert recorded.recorded == (free,)
    assert "which must be done first, was left out" in recorded.left_out[last.id]


def test_recording_a_plan_again_changes_nothing(connection: sa.Connection) -> None:
    """After a crash the same plan is recorded again, and sent steps stay sent."""
    begin_periods(connection)
    steps = one_of_each()
    journal.record(connection, steps, 0.0)
    journal.mark_sent(connection, [steps[1].id], 1.0)
    again = journal.record(connection, steps, 2.0)
    assert (again.recorded, again.left_out) == (tuple(steps), {})
    assert states(connection)[steps[1].id] is StepState.SENT


def test_a_step_is_sent_once(connection: sa.Connection) -> None:
    """A second sender gets no step; a repeated transaction gets the same steps."""
    begin_periods(connection)
    journal.record(connection, [deploy(1), deploy(2)], 0.0)
    ids = {deploy(1).id, deploy(2).id}
    assert journal.mark_sent(connection, [deploy(1).id], 1.0) == {deploy(1).id}
    for _ in range(2):
        assert journal.mark_sent(connection, ids, 2.0) == {deploy(2).id}
    assert journal.mark_sent(connection, ids | {"unknown"}, 3.0) == frozenset()


def test_an_ended_step_keeps_its_state(connection: sa.Connection) -> None:
    """A late answer changes nothing."""
    begin_periods(connection)
    step = deploy(1)
    journal.record(connection, [step], 0.0)
    journal.mark_sent(connection, [step.id], 1.0)
    assert journal.expire(connection, {step.id: "not seen within 300 s"}, 301.0) == {step.id}
    assert journal.confirm(connection, [step.id], 302.0) == frozenset()
    assert journal.refuse(connection, {step.id: "late"}, 303.0) == frozenset()
    (find,) = journal.of_plan(connection, 1)
    assert (find.state, find.sent_s, find.ended_s) == (StepState.EXPIRED, 1.0, 301.0)
    assert find.reply == "not seen within 300 s"


def test_a_confirmed_creation_names_its_vm(connection: sa.Connection) -> None:
    """The VM's history starts with its creation, and the step keeps its id."""
    begin_periods(connection)
    step = create()
    journal.record(connection, [step], 0.0)
    assert journal.confirm(connection, [], 5.0, {step.id: 42}) == {step.id}
    (find,) = journal.history(connection, 42)
    assert (find.step, find.created, find.id) == (replace(step, template=""), 42, step.id)


@pytest.mark.parametrize("end", ["confirm", "refuse", "expire"])
def test_the_template_of_a_creation_is_removed_when_it_ends(
    connection: sa.Connection, end: str
) -> None:
    """A VM's template is stored only while its creation is outstanding."""
    begin_periods(connection)
    step = replace(create(), template="X" * 30_000)
    journal.record(connection, [step, deploy(1)], 0.0)
    journal.mark_sent(connection, [step.id], 1.0)
    (sent,) = [stored.step for stored in journal.outstanding(connection) if stored.id == step.id]
    assert sent == step
    if end == "confirm":
        journal.confirm(connection, [deploy(1).id], 2.0, {step.id: 42})
    elif end == "refuse":
        journal.refuse(connection, {step.id: "no", deploy(1).id: "no"}, 2.0)
    else:
        journal.expire(connection, {step.id: "late", deploy(1).id: "late"}, 2.0)
    stored = connection.scalars(sa.select(STEPS.c.detail)).all()
    assert max(len(detail) for detail in stored) < 100
    ended = {stored.id: stored.step for stored in journal.of_plan(connection, 1)}
    assert ended == {step.id: replace(step, template=""), deploy(1).id: deploy(1)}


def test_a_key_creates_one_vm(connection: sa.Connection) -> None:
    """A refused or expired creation may be repeated, a confirmed one never."""
    begin_periods(connection, 4)
    journal.record(connection, [create(1)], 0.0)
    assert journal.record(connection, [create(2)], 1.0).recorded == ()
    journal.expire(connection, {create(1).id: "no answer"}, 2.0)
    assert journal.record(connection, [create(3)], 3.0).recorded == (create(3),)
    journal.confirm(connection, [], 4.0, {create(3).id: 9})
    assert (
        "creates or created" in journal.record(connection, [create(4)], 5.0).left_out[create(4).id]
    )
    (made,) = journal.of_plan(connection, 3)
    assert made.created == 9


def test_a_step_needs_a_period(connection: sa.Connection) -> None:
    """Steps of a period that was never begun raise `LookupError`, not `LostRaceError`."""
    with pytest.raises(LookupError, match="period 5"):
        journal.record(connection, [deploy(1, period=5)], 0.0)


def test_an_undetected_conflict_is_a_lost_race(
    connection: sa.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the check missed another daemon's step, the unique key causes a retry."""
    begin_periods(connection, 2)
    journal.record(connection, [deploy(1)], 0.0)
    monkeypatch.setattr(journal, "_claimed", lambda *_args: {})
    with pytest.raises(LostRaceError):
        journal.record(connection, [deploy(1, period=2)], 1.0)


def test_recent_decisions_can_be_filtered(connection: sa.Connection) -> None:
    """Filters are VM, host, kind, state, period and time; the newest step comes first."""
    begin_periods(connection, 3)
    for period in (1, 2, 3):
        step = replace(deploy(period, period=period), host=period % 2)
        journal.record(connection, [step], 10.0 * period)
    journal.confirm(connection, [deploy(2, period=2).id], 50.0)

    def find(wanted: StepFilter, limit: int = 9) -> list[int]:
        return [stored.step.period for stored in journal.recent(connection, wanted, limit)]

    assert find(StepFilter()) == [3, 2, 1]
    assert find(StepFilter(), limit=2) == [3, 2]
    assert find(StepFilter(vm=2)) == [2]
    assert find(StepFilter(host=1)) == [3, 1]
    assert find(StepFilter(host=0)) == [2]
    assert find(StepFilter(kind="migrate")) == []
    assert find(StepFilter(state=StepState.PLANNED)) == [3, 1]
    assert find(StepFilter(first_period=2, last_period=2)) == [2]
    assert find(StepFilter(since_s=15.0, last_period=2)) == [2]


def test_retention_spares_outstanding_steps(connection: sa.Connection) -> None:
    """Old steps are deleted only after they have ended."""
    begin_periods(connection, 2)
    journal.record(connection, [deploy(1), deploy(2)], 0.0)
    journal.confirm(connection, [deploy(1).id], 1.0)
    delete_old_rows(connection, Horizon(2, 0.0, 0.0))
    assert [stored.step.vm for stored in journal.of_plan(connection, 1)] == [2]


def test_thousands_of_steps_are_recorded_at_once(connection: sa.Connection) -> None:
    """Lists longer than an IN list holds are split."""
    begin_periods(connection)
    steps = [deploy(vm) for vm in range(2 * CHUNK + 1)]
    assert len(journal.record(connection, steps, 0.0).recorded) == len(steps)
    assert len(journal.mark_sent(connection, [step.id for step in steps], 1.0)) == len(steps)


@pytest.mark.parametrize("count", [2, 20])
def test_lists_of_any_length_lock_their_rows(connection: sa.Connection, count: int) -> None:
    """MariaDB locks the rows of a few and of many steps, accounts and applications."""
    steps = [f"step{number}" for number in range(count)]
    with locking(connection.engine) as statements:
        journal.mark_sent(connection, steps, 0.0)
        journal.confirm(connection, steps, 0.0)
        account_store.lock(connection, range(count))
        budget_store.ended_among(connection, range(count))
    assert len(statements) == (0 if connection.dialect.name == "sqlite" else 5)
