"""Separate work in one transaction: one failing part leaves nothing, the other parts continue."""

import pytest
import sqlalchemy as sa

from merkatd.database.base.savepoints import SeparateWork
from merkatd.database.base.transactions import LostRaceError, ends_transaction
from merkatd.database.ledger import tenant_store


def weighted_groups(connection: sa.Connection) -> list[int]:
    """Return the groups with a weight."""
    return sorted(tenant_store.groups(connection))


def write_weight(connection: sa.Connection, group: int, error: Exception | None = None) -> int:
    """Write a group's weight, then raise the error, if any."""
    tenant_store.set_group_weight(connection, group, 2.0)
    if error is not None:
        raise error
    return group


@pytest.mark.parametrize(
    "error",
    [
        OverflowError("too large"),
        KeyError(7),
        RecursionError(),
        sa.exc.StatementError("a value that can't be made into one", None, None, TypeError()),
        sa.exc.IntegrityError("", None, Exception()),
        sa.exc.DataError("", None, Exception()),
    ],
)
def test_a_failing_part_is_undone_and_the_others_continue(
    connection: sa.Connection, error: Exception
) -> None:
    """The error is kept, and the failing part does not run again."""
    apart = SeparateWork(connection)
    assert apart.run(1, lambda: write_weight(connection, 1), -1) == 1
    assert apart.run(2, lambda: write_weight(connection, 2, error), -1) == -1
    assert apart.run(3, lambda: write_weight(connection, 3), -1) == 3
    assert apart.run(2, lambda: write_weight(connection, 2), -1) == -1
    assert apart.look(2, lambda: 2, -1) == -1
    assert weighted_groups(connection) == [1, 3]
    assert apart.failed == {2: error}


@pytest.mark.parametrize(
    "error",
    [
        sa.exc.OperationalError("", None, Exception(1213, "deadlock")),
        sa.exc.InternalError("", None, Exception()),
        sa.exc.InterfaceError("", None, Exception()),
        sa.exc.PendingRollbackError(""),
        LostRaceError(),
    ],
)
def test_an_error_of_the_database_ends_the_transaction(
    connection: sa.Connection, error: Exception
) -> None:
    """The whole transaction is retried, because the error belongs to no part."""
    assert ends_transaction(error)
    apart = SeparateWork(connection)
    with pytest.raises(type(error)):
        apart.run(1, lambda: write_weight(connection, 1, error), -1)
    with pytest.raises(type(error)):
        apart.look(1, lambda: write_weight(connection, 2, error), -1)
    assert apart.failed == {}


def test_a_value_that_no_column_can_store_affects_one_part_only(connection: sa.Connection) -> None:
    """A value that the database driver rejects leaves the other parts unchanged."""
    apart = SeparateWork(connection)
    assert apart.run(1, lambda: write_weight(connection, 1), -1) == 1
    assert apart.run(2, lambda: write_weight(connection, 2**70), -1) == -1
    assert apart.run(3, lambda: write_weight(connection, 3), -1) == 3
    assert weighted_groups(connection) == [1, 3]
    assert list(apart.failed) == [2]
