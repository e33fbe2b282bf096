"""When a round is due, also after the clock was wrong."""

from itertools import accumulate, pairwise

import sqlalchemy as sa
from hypothesis import example, given
from hypothesis import strategies as st

from merkatd.database.database import transaction
from merkatd.database.ledger import note_store
from merkatd.database.ledger.note_store import RoundKind
from tests.migrated import migrated

INTERVAL_S = 100.0
YEAR_S = 365 * 86_400.0


def is_due(connection: sa.Connection, at_s: float) -> bool:
    """Return whether the next renewal is due."""
    return note_store.round_due(connection, RoundKind.RENEWAL, at_s, INTERVAL_S)


def test_a_round_is_due_an_interval_after_the_newest(connection: sa.Connection) -> None:
    """The first round is due at once; a small step back of the clock repeats none."""
    assert is_due(connection, 1_000.0)
    note_store.begin_round(connection, RoundKind.RENEWAL, 1_000.0)
    assert not is_due(connection, 1_099.0)
    assert is_due(connection, 1_100.0)
    assert not is_due(connection, 990.0)


def test_a_round_dated_a_year_ahead_does_not_stop_rounds(connection: sa.Connection) -> None:
    """The next round happens once, and later ones follow at their intervals."""
    note_store.begin_round(connection, RoundKind.RENEWAL, 1_000.0 + YEAR_S)
    assert is_due(connection, 1_010.0)
    note_store.begin_round(connection, RoundKind.RENEWAL, 1_010.0)
    assert not is_due(connection, 1_020.0)
    assert is_due(connection, 1_110.0)


def test_a_round_dated_slightly_ahead_is_followed_after_one_interval(
    connection: sa.Connection,
) -> None:
    """The interval counts from the correction of the clock, which was 90 seconds ahead."""
    note_store.begin_round(connection, RoundKind.RENEWAL, 1_090.0)
    assert not is_due(connection, 1_010.0)
    assert not is_due(connection, 1_109.0)
    assert is_due(connection, 1_110.0)


def test_clocks_that_differ_slightly_leave_dates_unchanged(
    connection: sa.Connection,
) -> None:
    """Two alternating daemons do not make rounds more frequent."""
    note_store.begin_round(connection, RoundKind.RENEWAL, 1_000.0)
    assert not is_due(connection, 996.0)
    assert note_store.newest(connection, RoundKind.RENEWAL) == (1, 1_000.0)
    assert not is_due(connection, 1_099.0)


def test_only_the_newest_round_of_the_kind_is_redated(connection: sa.Connection) -> None:
    """Other kinds and earlier rounds keep their dates."""
    for kind in (RoundKind.RENEWAL, RoundKind.REPLENISHMENT):
        note_store.begin_round(connection, kind, 900.0)
        note_store.begin_round(connection, kind, 1_090.0)
    assert not is_due(connection, 1_010.0)
    dates = list(connection.execute(sa.select(note_store.ROUNDS.c.at_s).order_by("kind", "number")))
    assert [row.at_s for row in dates] == [900.0, 1_010.0, 900.0, 1_090.0]


LOOK_S = 10.0
JUMPS = st.lists(st.sampled_from([0.0] * 8 + [-250.0, -95.0, -40.0, 40.0, 95.0, 250.0]))


@given(JUMPS)
@example([0.0, 0.0, 0.0, 40.0, -95.0])  # back to 5 s before the round: too little to date it anew
def test_rounds_survive_a_clock_that_jumps(jumps: list[float]) -> None:
    """Rounds are an interval of clock movement apart; a correct clock waits no longer."""
    correct = round(INTERVAL_S / LOOK_S) + 1  # a small step back delays a round by less than a look
    steps = [*(LOOK_S + jump for jump in jumps), *[LOOK_S] * correct]
    times = list(accumulate(steps, initial=10_000.0))
    engine = migrated()

    def play(connection: sa.Connection) -> list[int]:
        done = []
        for look, at_s in enumerate(times):
            if is_due(connection, at_s):
                note_store.begin_round(connection, RoundKind.RENEWAL, at_s)
                done.append(look)
        return done

    try:
        done = transaction(engine, play)
    finally:
        engine.dispose()
    for before, after in pairwise(done):
        assert sum(abs(step) for step in steps[before:after]) >= INTERVAL_S
    assert done[-1] >= len(jumps), "an interval of correct time causes a round"
