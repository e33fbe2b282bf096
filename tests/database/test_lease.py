"""A lease has one holder at a time, and a former holder cannot write."""

import pytest
import sqlalchemy as sa

from merkatd.database.scheduler import lease_store
from merkatd.database.scheduler.lease_store import LeaseLostError


def test_the_first_daemon_takes_the_lease_and_raises_its_counter(connection: sa.Connection) -> None:
    """Each renewal raises the counter, which shows other daemons that the holder is alive."""
    assert lease_store.read_lease(connection) is None
    token = lease_store.take_lease(connection, "a", None)
    assert token == 1
    lease_store.renew_lease(connection, token)
    lease_store.renew_lease(connection, token)
    assert lease_store.read_lease(connection) == lease_store.Lease("a", 1, 2)


def test_an_outdated_counter_cannot_take_the_lease(connection: sa.Connection) -> None:
    """The holder has renewed the lease since the other daemon read it."""
    token = lease_store.take_lease(connection, "a", None)
    assert token is not None
    seen = lease_store.read_lease(connection)
    lease_store.renew_lease(connection, token)
    assert lease_store.take_lease(connection, "b", seen) is None
    assert lease_store.take_lease(connection, "b", None) is None
    lease_store.renew_lease(connection, token)


def test_a_former_holder_cannot_renew(connection: sa.Connection) -> None:
    """An earlier process of the present holder cannot renew either."""
    first = lease_store.take_lease(connection, "a", None)
    second = lease_store.take_lease(connection, "b", lease_store.read_lease(connection))
    third = lease_store.take_lease(connection, "b", lease_store.read_lease(connection))
    assert (first, second, third) == (1, 2, 3)
    for token in (1, 2):
        with pytest.raises(LeaseLostError):
            lease_store.renew_lease(connection, token)
        lease_store.give_back(connection, token)
    lease_store.renew_lease(connection, 3)


def test_a_returned_lease_has_no_holder(connection: sa.Connection) -> None:
    """Also the former holder cannot write after it returned the lease."""
    token = lease_store.take_lease(connection, "a", None)
    assert token is not None
    lease_store.give_back(connection, token)
    lease = lease_store.read_lease(connection)
    assert lease is not None
    assert lease.holder == lease_store.NO_HOLDER
    with pytest.raises(LeaseLostError):
        lease_store.renew_lease(connection, token)
    assert lease_store.take_lease(connection, "b", lease) == 2


def test_writes_of_a_former_holder_are_rolled_back(
    file_engine: sa.Engine,
) -> None:
    """The write and the renewal are one transaction, with no moment in between."""
    with file_engine.begin() as writing:
        token = lease_store.take_lease(writing, "a", None)
        assert token is not None
    with file_engine.begin() as other:
        lease_store.take_lease(other, "b", lease_store.read_lease(other))

    def write() -> None:
        with file_engine.begin() as late:
            late.execute(sa.text("INSERT INTO bids VALUES (1, '{}', 'default', 0.0, NULL)"))
            lease_store.renew_lease(late, token)

    with pytest.raises(LeaseLostError):
        write()
    with file_engine.begin() as look:
        assert look.execute(sa.text("SELECT count(*) FROM bids")).scalar() == 0
