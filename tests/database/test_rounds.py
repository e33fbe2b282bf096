"""When a round is due, also after the clock was wrong."""

from itertools import accumulate, pairwise

import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from merkatd.database.database import transaction
from merkatd.database.ledger import note_store
from merkatd.database.ledger.note_store import RoundKind
from tests.migrated import migrated

INTERVAL_S = 100.0
YEAR_S = 365 * 86_400.0


def is_due(connection: sa.Connection, at_s: float) -> bool:
    """The next renewal."""
    return note_store.round_due(connection, RoundKind.RENEWAL, at_s, INTERVAL_S)


def test_a_round_is_due_an_interval_after_the_newest(connection: sa.Connection) -> None:
    """The first one at once; a clock that is set back a little makes none twice."""
    assert is_due(connection, 1_000.0)
    note_store.begin_round(connection, RoundKind.RENEWAL, 1_000.0)
    assert not is_due(connection, 1_099.0)
    assert is_due(connection, 1_100.0)
    assert not is_due(connection, 990.0)


def test_a_round_of_a_clock_that_was_a_year_ahead_stops_none(connection: sa.Connection) -> None:
    """The next one is done once, and they go on from there."""
    note_store.begin_round(connection, RoundKind.RENEWAL, 1_000.0 + YEAR_S)
    assert is_due(connection, 1_010.0)
    note_store.begin_round(connection, RoundKind.RENEWAL, 1_010.0)
    assert not is_due(connection, 1_020.0)
    assert is_due(connection, 1_110.0)


def test_a_round_of_a_clock_that_was_ahead_is_followed_an_interval_later(
    connection: sa.Connection,
) -> None:
    """From the time at which the clock was seen to be right again; it was 90 seconds ahead."""
    note_store.begin_round(connection, RoundKind.RENEWAL, 1_090.0)
    assert not is_due(connection, 1_010.0)
    assert not is_due(connection, 1_109.0)
    assert is_due(connection, 1_110.0)


def test_clocks_that_differ_by_a_moment_leave_dates_as_they_are(
    connection: sa.Connection,
) -> None:
    """Two daemons that take turns make rounds no more frequent."""
    note_store.begin_round(connection, RoundKind.RENEWAL, 1_000.0)
    assert not is_due(connection, 996.0)
    assert note_store.newest(connection, RoundKind.RENEWAL) == (1, 1_000.0)
    assert not is_due(connection, 1_099.0)


def test_only_the_kind_that_is_asked_for_is_dated_anew(connection: sa.Connection) -> None:
    """And only the newest round of it."""
    for kind in (RoundKind.RENEWAL, RoundKind.REPLENISHMENT):
        note_store.begin_round(connection, kind, 900.0)
        note_store.begin_round(connection, kind, 1_090.0)
    assert not is_due(connection, 1_010.0)
    dates = list(connection.execute(sa.select(note_store.ROUNDS.c.at_s).order_by("kind", "number")))
    assert [row.at_s for row in dates] == [900.0, 1_010.0, 900.0, 1_090.0]


LOOK_S = 10.0
JUMPS = st.lists(st.sampled_from([0.0] * 8 + [-250.0, -95.0, -40.0, 40.0, 95.0, 250.0]))


@given(JUMPS)
def test_rounds_of_a_clock_that_is_set_to_and_fro(jumps: list[float]) -> None:
    """Each takes an interval by which the clock moves; a right clock waits no longer than that."""
    steps = [*(LOOK_S + jump for jump in jumps), *[LOOK_S] * round(INTERVAL_S / LOOK_S)]
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
    assert done[-1] >= len(jumps), "an interval of right time brings a round"
