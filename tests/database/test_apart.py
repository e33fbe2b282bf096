"""Work for many in one transaction: one that fails leaves nothing, and the others go on."""

import pytest
import sqlalchemy as sa

from merkatd.database.base.savepoints import SeparateWork
from merkatd.database.base.transactions import LostRaceError, ends_transaction
from merkatd.database.ledger import tenant_store


def written(connection: sa.Connection) -> list[int]:
    """The groups that have a weight."""
    return sorted(tenant_store.groups(connection))


def writes(connection: sa.Connection, group: int, error: Exception | None = None) -> int:
    """Write a group's weight, and fail afterwards where there is an error."""
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
def test_what_one_has_written_is_undone_and_others_go_on(
    connection: sa.Connection, error: Exception
) -> None:
    """Its error is kept, and it is asked for nothing any more."""
    apart = SeparateWork(connection)
    assert apart.run(1, lambda: writes(connection, 1), -1) == 1
    assert apart.run(2, lambda: writes(connection, 2, error), -1) == -1
    assert apart.run(3, lambda: writes(connection, 3), -1) == 3
    assert apart.run(2, lambda: writes(connection, 2), -1) == -1
    assert apart.look(2, lambda: 2, -1) == -1
    assert written(connection) == [1, 3]
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
    """The whole transaction is run again: the error is nobody's own."""
    assert ends_transaction(error)
    apart = SeparateWork(connection)
    with pytest.raises(type(error)):
        apart.run(1, lambda: writes(connection, 1, error), -1)
    with pytest.raises(type(error)):
        apart.look(1, lambda: writes(connection, 2, error), -1)
    assert apart.failed == {}


def test_a_value_that_no_column_holds_is_the_fault_of_one(connection: sa.Connection) -> None:
    """What the database's own driver refuses of one undoes nothing of the others."""
    apart = SeparateWork(connection)
    assert apart.run(1, lambda: writes(connection, 1), -1) == 1
    assert apart.run(2, lambda: writes(connection, 2**70), -1) == -1
    assert apart.run(3, lambda: writes(connection, 3), -1) == 3
    assert written(connection) == [1, 3]
    assert list(apart.failed) == [2]
