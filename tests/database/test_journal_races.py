"""The journal under any order of events, and under two concurrent writers."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.database.scheduler import journal
from merkatd.database.scheduler.journal import StepFilter
from merkatd.database.scheduler.step_store import StepState
from tests.database.again import retry_transaction
from tests.database.begun import begin_periods, deploy
from tests.lengths import shorten
from tests.migrated import migrated

VERBS = st.sampled_from(["record", "record", "send", "send", "confirm", "refuse", "expire"])


@settings(max_examples=shorten(300, 40), deadline=None)
@given(st.lists(st.tuples(VERBS, st.integers(1, 2), st.integers(0, 1)), min_size=8, max_size=24))
def test_a_vm_always_has_at_most_one_outstanding_step(
    script: list[tuple[str, int, int]],
) -> None:
    """Under events in any order the journal moves each step like a plain dictionary."""
    engine = migrated()
    expected: dict[str, StepState] = {}
    outstanding = {StepState.PLANNED, StepState.SENT}
    with engine.connect() as connection:
        begin_periods(connection, 4)
        for turn, (verb, period, vm) in enumerate(script):
            step = deploy(vm, period)
            before = expected.get(step.id)
            if verb == "record":
                others = {deploy(vm, other).id for other in (1, 2, 3, 4)} & expected.keys()
                if before is None and not any(expected[other] in outstanding for other in others):
                    expected[step.id] = StepState.PLANNED
                journal.record(connection, [step], 0.0)
            elif verb == "send":
                moved = journal.mark_sent(connection, [step.id], float(turn))
                assert bool(moved) == (before is StepState.PLANNED)
                expected |= dict.fromkeys(moved, StepState.SENT)
            else:
                moved, state = end_step(connection, verb, step.id)
                assert bool(moved) == (before in outstanding)
                expected |= dict.fromkeys(moved, state)
        steps = journal.recent(connection, StepFilter(), limit=100)
        assert {stored.id: stored.state for stored in steps} == expected
    engine.dispose()


def end_step(connection: sa.Connection, verb: str, step: str) -> tuple[frozenset[str], StepState]:
    """End a step in one of three ways."""
    if verb == "confirm":
        return journal.confirm(connection, [step], 0.0), StepState.CONFIRMED
    if verb == "refuse":
        return journal.refuse(connection, {step: "no"}, 0.0), StepState.REFUSED
    return journal.expire(connection, {step: "late"}, 0.0), StepState.EXPIRED


def test_of_two_connections_racing_for_a_vm_one_wins(file_engine: sa.Engine) -> None:
    """In each of twenty rounds, one of two concurrent threads records its step."""
    with file_engine.begin() as connection:
        begin_periods(connection, 2)
    start = Barrier(2)

    def race(period: int, vm: int) -> int:
        start.wait()
        return retry_transaction(
            file_engine,
            lambda connection: len(journal.record(connection, [deploy(vm, period)], 0.0).recorded),
        )

    with ThreadPoolExecutor(2) as pool:
        for vm in range(20):
            runs = [pool.submit(race, period, vm) for period in (1, 2)]
            assert sorted(run.result() for run in runs) == [0, 1]
    with file_engine.connect() as connection:
        assert len(journal.outstanding(connection)) == 20
