"""A VM's newest bid applies, and a template is read again only when its text changed."""

import math

import pytest
import sqlalchemy as sa

from merkatd.database.base.schema import CHUNK
from merkatd.database.retention import Horizon, delete_old_rows
from merkatd.database.scheduler import bid_store
from merkatd.database.scheduler.bid_store import Bid, BidSource

MANY = 2 * CHUNK + 1


def make_bid(vm: int, cpu: float, at_s: float, source: BidSource = BidSource.XMLRPC) -> Bid:
    """Return a bid for CPU."""
    return Bid(vm=vm, bid={"cpu": cpu}, source=source, at_s=at_s)


def template_bid(vm: int, cpu: float, at_s: float, text_hash: str) -> Bid:
    """Return a bid read from a template."""
    return Bid(
        vm=vm, bid={"cpu": cpu}, source=BidSource.TEMPLATE, at_s=at_s, template_hash=text_hash
    )


def test_the_newest_bid_applies_whatever_its_source(connection: sa.Connection) -> None:
    """Of template, tenant and controller, the most recent bid applies."""
    bid_store.record_bids(connection, [template_bid(1, 1.0, 0.0, "a")])
    bid_store.record_bids(connection, [make_bid(1, 2.0, 10.0)])
    bid_store.record_bids(connection, [make_bid(1, 3.0, 20.0, BidSource.CONTROLLER)])
    bid = bid_store.newest_bids(connection)[1]
    assert (bid.bid, bid.source, bid.at_s) == ({"cpu": 3.0}, BidSource.CONTROLLER, 20.0)


def test_an_outdated_template_bid_is_only_recorded(connection: sa.Connection) -> None:
    """A template's bid has no effect if another bid came after the observation began."""
    bid_store.record_bids(connection, [make_bid(1, 1.0, 0.0), make_bid(2, 1.0, 0.0)])
    began = bid_store.newest(connection)
    assert bid_store.record_bids(connection, [make_bid(1, 2.0, 10.0)]) == {1}
    assert bid_store.record_bids(
        connection, [template_bid(1, 9.0, 20.0, "a"), template_bid(2, 9.0, 20.0, "a")], began
    ) == {2}
    assert bid_store.amounts(connection) == {1: {"cpu": 2.0}, 2: {"cpu": 9.0}}
    assert [bid.bid["cpu"] for bid in bid_store.history(connection, 1)] == [9.0, 2.0, 1.0]


def test_a_template_s_word_is_overtaken_while_it_is_being_stored(
    made_on_mariadb: sa.Engine,
) -> None:
    """A period's transaction reads long before it stores; a tenant's bid came in between."""
    with made_on_mariadb.begin() as tenant:
        bid_store.record_bids(tenant, [make_bid(1, 1.0, 0.0)])
        began = bid_store.newest(tenant)
    try:
        with made_on_mariadb.begin() as period:
            assert bid_store.amounts(period) == {1: {"cpu": 1.0}}
            with made_on_mariadb.begin() as tenant:
                bid_store.record_bids(tenant, [make_bid(1, 2.0, 10.0)])
            assert (
                bid_store.record_bids(period, [template_bid(1, 9.0, 20.0, "a")], began)
                == frozenset()
            )
        with made_on_mariadb.begin() as tenant:
            assert bid_store.amounts(tenant) == {1: {"cpu": 2.0}}
    finally:
        with made_on_mariadb.begin() as tenant:
            tenant.execute(sa.delete(bid_store.BIDS))
            tenant.execute(sa.delete(bid_store.WORDS))


def test_only_template_bids_can_be_outdated(connection: sa.Connection) -> None:
    """All other bids apply in the order of their arrival."""
    bid_store.record_bids(connection, [make_bid(1, 2.0, 10.0)])
    for source in (BidSource.XMLRPC, BidSource.CONTROLLER, BidSource.DEFAULT):
        assert bid_store.record_bids(connection, [make_bid(1, 3.0, 20.0, source)], 0) == {1}
        assert bid_store.newest_bids(connection)[1].source == source


@pytest.mark.parametrize("source", list(BidSource))
def test_a_clock_set_back_makes_no_bid_older(connection: sa.Connection, source: BidSource) -> None:
    """Bids apply in order of arrival, also in the shown history."""
    bid_store.record_bids(connection, [make_bid(1, 30.0, 7_200.0, source)])
    began = bid_store.newest(connection)
    assert bid_store.record_bids(connection, [make_bid(1, 2.0, 10.0, source)], began) == {1}
    assert bid_store.newest_bids(connection)[1].bid == {"cpu": 2.0}
    assert [bid.bid["cpu"] for bid in bid_store.history(connection, 1)] == [2.0, 30.0]


def test_of_two_bids_at_the_same_time_the_later_one_applies(connection: sa.Connection) -> None:
    """A stopped clock does not block new bids."""
    bid_store.record_bids(connection, [make_bid(1, 2.0, 10.0)])
    bid_store.record_bids(connection, [make_bid(1, 3.0, 10.0)])
    assert bid_store.newest_bids(connection)[1].bid == {"cpu": 3.0}


def test_a_template_is_read_when_it_is_new_or_changed(
    connection: sa.Connection,
) -> None:
    """Bids from other sources do not cause another reading."""
    assert bid_store.changed_templates(connection, {1: "a", 2: "a"}) == {1, 2}
    bid_store.record_bids(connection, [template_bid(1, 1.0, 0.0, "a")])
    assert bid_store.changed_templates(connection, {1: "a", 2: "a"}) == {2}
    bid_store.record_bids(connection, [make_bid(1, 2.0, 10.0)])
    assert bid_store.changed_templates(connection, {1: "a"}) == frozenset()
    assert bid_store.changed_templates(connection, {1: "b"}) == {1}


def test_a_template_without_a_bid_is_remembered_as_read(connection: sa.Connection) -> None:
    """The present bid stays, and the text is not read again."""
    bid_store.record_bids(connection, [make_bid(1, 2.0, 0.0, BidSource.DEFAULT)])
    bid_store.read_templates(connection, {1: "no bid here"})
    assert bid_store.changed_templates(connection, {1: "no bid here"}) == frozenset()
    assert bid_store.newest_bids(connection)[1].bid == {"cpu": 2.0}


def test_an_outdated_template_bid_counts_as_read(connection: sa.Connection) -> None:
    """Otherwise the same text would replace the later bid in the next period."""
    bid_store.record_bids(connection, [make_bid(1, 2.0, 10.0)])
    bid_store.record_bids(connection, [template_bid(1, 1.0, 15.0, "a")], 0)
    assert bid_store.changed_templates(connection, {1: "a"}) == frozenset()
    assert bid_store.newest_bids(connection)[1].bid == {"cpu": 2.0}


def test_a_removed_vm_has_no_bid(connection: sa.Connection) -> None:
    """Its bids stay in the history until retention deletes them."""
    bid_store.record_bids(connection, [make_bid(1, 1.0, 0.0), make_bid(2, 2.0, 0.0)])
    bid_store.forget(connection, [1])
    assert list(bid_store.newest_bids(connection)) == [2]
    assert len(bid_store.history(connection, 1)) == 1
    delete_old_rows(connection, Horizon(0, 1.0, 0.0))
    assert bid_store.history(connection, 1) == ()


@pytest.mark.parametrize("amount", [math.nan, math.inf, -0.5])
def test_an_invalid_bid_is_an_error(amount: float) -> None:
    """The message names the VM, the resource and the accepted values."""
    with pytest.raises(ValueError, match=r"VM 1: a bid for cpu must be a finite number"):
        make_bid(1, amount, 0.0)


def test_amounts_are_the_present_bids_only(connection: sa.Connection) -> None:
    """The amounts equal the newest bids, also if several VMs bid the same."""
    bid_store.record_bids(
        connection, [template_bid(1, 1.5, 0.0, "a"), make_bid(2, 1.5, 0.0), make_bid(3, 4.0, 0.0)]
    )
    bid_store.record_bids(connection, [make_bid(3, 2.0, 1.0)])
    present = {vm: row.bid for vm, row in bid_store.newest_bids(connection).items()}
    assert bid_store.amounts(connection) == present
    assert present[3] == {"cpu": 2.0}


def test_thousands_of_bids_are_recorded_at_once(connection: sa.Connection) -> None:
    """More first bids than an IN list holds, and then as many second ones, are recorded."""
    for at_s in (0.0, 1.0):
        recorded = bid_store.record_bids(
            connection, [make_bid(vm, at_s + vm, at_s) for vm in range(MANY)]
        )
        assert len(recorded) == MANY
    assert bid_store.newest_bids(connection, [MANY - 1])[MANY - 1].bid == {"cpu": float(MANY)}
