"""One holder at a time, and one that lost the lease writes nothing more."""

import pytest
import sqlalchemy as sa

from merkatd.database.scheduler import lease_store
from merkatd.database.scheduler.lease_store import LeaseLostError


def test_the_first_one_takes_it_and_raises_the_counter(connection: sa.Connection) -> None:
    """From then on others see that somebody lives."""
    assert lease_store.read_lease(connection) is None
    token = lease_store.take_lease(connection, "a", None)
    assert token == 1
    lease_store.renew_lease(connection, token)
    lease_store.renew_lease(connection, token)
    assert lease_store.read_lease(connection) == lease_store.Lease("a", 1, 2)


def test_who_saw_an_older_counter_can_not_take_it(connection: sa.Connection) -> None:
    """The holder has shown in between that it lives."""
    token = lease_store.take_lease(connection, "a", None)
    assert token is not None
    seen = lease_store.read_lease(connection)
    lease_store.renew_lease(connection, token)
    assert lease_store.take_lease(connection, "b", seen) is None
    assert lease_store.take_lease(connection, "b", None) is None
    lease_store.renew_lease(connection, token)


def test_who_lost_it_can_not_go_on(connection: sa.Connection) -> None:
    """Nor can an earlier process of the same holder."""
    first = lease_store.take_lease(connection, "a", None)
    second = lease_store.take_lease(connection, "b", lease_store.read_lease(connection))
    third = lease_store.take_lease(connection, "b", lease_store.read_lease(connection))
    assert (first, second, third) == (1, 2, 3)
    for token in (1, 2):
        with pytest.raises(LeaseLostError):
            lease_store.renew_lease(connection, token)
        lease_store.give_back(connection, token)
    lease_store.renew_lease(connection, 3)


def test_given_back_it_is_nobodys(connection: sa.Connection) -> None:
    """Not even the one who gave it back may write on."""
    token = lease_store.take_lease(connection, "a", None)
    assert token is not None
    lease_store.give_back(connection, token)
    found = lease_store.read_lease(connection)
    assert found is not None
    assert found.holder == lease_store.NO_HOLDER
    with pytest.raises(LeaseLostError):
        lease_store.renew_lease(connection, token)
    assert lease_store.take_lease(connection, "b", found) == 2


def test_on_a_file_what_a_fenced_transaction_wrote_is_gone_with_the_lease(
    file_engine: sa.Engine,
) -> None:
    """Proof and writing are one transaction: there is no moment between them."""
    with file_engine.begin() as one:
        token = lease_store.take_lease(one, "a", None)
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
