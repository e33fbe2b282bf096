"""When a round is due, also after the clock was wrong."""

import sqlalchemy as sa

from merkatd.database import rounds
from merkatd.database.rounds import RoundKind

INTERVAL_S = 100.0
YEAR_S = 365 * 86_400.0


def is_due(connection: sa.Connection, at_s: float) -> bool:
    """The next renewal."""
    return rounds.due(connection, RoundKind.RENEWAL, at_s, INTERVAL_S)


def test_a_round_is_due_an_interval_after_the_newest(connection: sa.Connection) -> None:
    """The first one at once; a clock that is set back a little makes none twice."""
    assert is_due(connection, 1_000.0)
    rounds.begin(connection, RoundKind.RENEWAL, 1_000.0)
    assert not is_due(connection, 1_099.0)
    assert is_due(connection, 1_100.0)
    assert not is_due(connection, 990.0)


def test_a_round_of_a_clock_that_was_a_year_ahead_stops_none(connection: sa.Connection) -> None:
    """The next one is done once, and they go on from there."""
    rounds.begin(connection, RoundKind.RENEWAL, 1_000.0 + YEAR_S)
    assert is_due(connection, 1_010.0)
    rounds.begin(connection, RoundKind.RENEWAL, 1_010.0)
    assert not is_due(connection, 1_020.0)
    assert is_due(connection, 1_110.0)
