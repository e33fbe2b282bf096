"""The newest word on a VM is its bid, and a template is read again only when it changed."""

import math

import pytest
import sqlalchemy as sa

from merkatd.database.retention import Horizon, delete_old_rows
from merkatd.database.scheduler import bid_store
from merkatd.database.scheduler.bid_store import Bid, BidSource


def word(vm: int, cpu: float, at_s: float, source: BidSource = BidSource.XMLRPC) -> Bid:
    """A bid for processors."""
    return Bid(vm=vm, bid={"cpu": cpu}, source=source, at_s=at_s)


def read(vm: int, cpu: float, at_s: float, text_hash: str) -> Bid:
    """A bid read from a template."""
    return Bid(
        vm=vm, bid={"cpu": cpu}, source=BidSource.TEMPLATE, at_s=at_s, template_hash=text_hash
    )


def test_the_newest_word_wins_wherever_it_came_from(connection: sa.Connection) -> None:
    """Template, tenant and controller speak in turn; the last to speak is heard."""
    bid_store.record_bids(connection, [read(1, 1.0, 0.0, "a")])
    bid_store.record_bids(connection, [word(1, 2.0, 10.0)])
    bid_store.record_bids(connection, [word(1, 3.0, 20.0, BidSource.CONTROLLER)])
    found = bid_store.newest_bids(connection)[1]
    assert (found.bid, found.source, found.at_s) == ({"cpu": 3.0}, BidSource.CONTROLLER, 20.0)


def test_a_template_s_word_that_was_overtaken_is_only_kept(connection: sa.Connection) -> None:
    """It is on record and changes nothing: another word was said since the look began."""
    bid_store.record_bids(connection, [word(1, 1.0, 0.0), word(2, 1.0, 0.0)])
    began = bid_store.newest(connection)
    assert bid_store.record_bids(connection, [word(1, 2.0, 10.0)]) == {1}
    assert bid_store.record_bids(
        connection, [read(1, 9.0, 20.0, "a"), read(2, 9.0, 20.0, "a")], began
    ) == {2}
    assert bid_store.amounts(connection) == {1: {"cpu": 2.0}, 2: {"cpu": 9.0}}
    assert [one.bid["cpu"] for one in bid_store.history(connection, 1)] == [9.0, 2.0, 1.0]


def test_a_template_s_word_is_overtaken_while_it_is_being_stored(
    made_on_mariadb: sa.Engine,
) -> None:
    """A period's transaction reads long before it stores; a tenant's bid came in between."""
    with made_on_mariadb.begin() as tenant:
        bid_store.record_bids(tenant, [word(1, 1.0, 0.0)])
        began = bid_store.newest(tenant)
    try:
        with made_on_mariadb.begin() as period:
            assert bid_store.amounts(period) == {1: {"cpu": 1.0}}
            with made_on_mariadb.begin() as tenant:
                bid_store.record_bids(tenant, [word(1, 2.0, 10.0)])
            assert bid_store.record_bids(period, [read(1, 9.0, 20.0, "a")], began) == frozenset()
        with made_on_mariadb.begin() as tenant:
            assert bid_store.amounts(tenant) == {1: {"cpu": 2.0}}
    finally:
        with made_on_mariadb.begin() as tenant:
            tenant.execute(sa.delete(bid_store.BIDS))
            tenant.execute(sa.delete(bid_store.WORDS))


def test_only_a_template_s_word_can_be_overtaken(connection: sa.Connection) -> None:
    """All others count in the order in which they are said."""
    bid_store.record_bids(connection, [word(1, 2.0, 10.0)])
    for source in (BidSource.XMLRPC, BidSource.CONTROLLER, BidSource.DEFAULT):
        assert bid_store.record_bids(connection, [word(1, 3.0, 20.0, source)], 0) == {1}
        assert bid_store.newest_bids(connection)[1].source == source


@pytest.mark.parametrize("source", list(BidSource))
def test_a_clock_that_is_set_back_makes_no_word_older(
    connection: sa.Connection, source: BidSource
) -> None:
    """Words are in the order in which they were said, also in what is shown of them."""
    bid_store.record_bids(connection, [word(1, 30.0, 7_200.0, source)])
    began = bid_store.newest(connection)
    assert bid_store.record_bids(connection, [word(1, 2.0, 10.0, source)], began) == {1}
    assert bid_store.newest_bids(connection)[1].bid == {"cpu": 2.0}
    assert [one.bid["cpu"] for one in bid_store.history(connection, 1)] == [2.0, 30.0]


def test_of_two_words_at_the_same_time_the_later_one_counts(connection: sa.Connection) -> None:
    """A clock that stands still doesn't make anybody mute."""
    bid_store.record_bids(connection, [word(1, 2.0, 10.0)])
    bid_store.record_bids(connection, [word(1, 3.0, 10.0)])
    assert bid_store.newest_bids(connection)[1].bid == {"cpu": 3.0}


def test_a_template_is_read_at_first_sight_and_when_its_text_changes(
    connection: sa.Connection,
) -> None:
    """A word from elsewhere in between makes no difference to that."""
    assert bid_store.changed_templates(connection, {1: "a", 2: "a"}) == {1, 2}
    bid_store.record_bids(connection, [read(1, 1.0, 0.0, "a")])
    assert bid_store.changed_templates(connection, {1: "a", 2: "a"}) == {2}
    bid_store.record_bids(connection, [word(1, 2.0, 10.0)])
    assert bid_store.changed_templates(connection, {1: "a"}) == frozenset()
    assert bid_store.changed_templates(connection, {1: "b"}) == {1}


def test_a_text_without_a_bid_is_remembered_as_read(connection: sa.Connection) -> None:
    """The bid stays, and the text is not read again."""
    bid_store.record_bids(connection, [word(1, 2.0, 0.0, BidSource.DEFAULT)])
    bid_store.read_templates(connection, {1: "no bid here"})
    assert bid_store.changed_templates(connection, {1: "no bid here"}) == frozenset()
    assert bid_store.newest_bids(connection)[1].bid == {"cpu": 2.0}


def test_an_overtaken_template_word_still_counts_as_read(connection: sa.Connection) -> None:
    """Otherwise the same text would take back the later word in the next period."""
    bid_store.record_bids(connection, [word(1, 2.0, 10.0)])
    bid_store.record_bids(connection, [read(1, 1.0, 15.0, "a")], 0)
    assert bid_store.changed_templates(connection, {1: "a"}) == frozenset()
    assert bid_store.newest_bids(connection)[1].bid == {"cpu": 2.0}


def test_a_vm_that_is_gone_bids_no_more(connection: sa.Connection) -> None:
    """Its words stay on record until they are forgotten too."""
    bid_store.record_bids(connection, [word(1, 1.0, 0.0), word(2, 2.0, 0.0)])
    bid_store.forget(connection, [1])
    assert list(bid_store.newest_bids(connection)) == [2]
    assert len(bid_store.history(connection, 1)) == 1
    delete_old_rows(connection, Horizon(0, 1.0, 0.0))
    assert bid_store.history(connection, 1) == ()


@pytest.mark.parametrize("amount", [math.nan, math.inf, -0.5])
def test_what_is_no_bid_can_t_be_said(amount: float) -> None:
    """The refusal names the VM, the resource and what would be right."""
    with pytest.raises(ValueError, match=r"VM 1: a bid for cpu must be a finite number"):
        word(1, amount, 0.0)


def test_amounts_are_the_present_bids_alone(connection: sa.Connection) -> None:
    """The same as the present words say, also where many say the same."""
    bid_store.record_bids(
        connection, [read(1, 1.5, 0.0, "a"), word(2, 1.5, 0.0), word(3, 4.0, 0.0)]
    )
    bid_store.record_bids(connection, [word(3, 2.0, 1.0)])
    present = {vm: one.bid for vm, one in bid_store.newest_bids(connection).items()}
    assert bid_store.amounts(connection) == present
    assert present[3] == {"cpu": 2.0}


def test_many_vms_are_heard_at_once(connection: sa.Connection) -> None:
    """Ten thousand first words, then as many second ones."""
    for at_s in (0.0, 1.0):
        said = bid_store.record_bids(
            connection, [word(vm, at_s + vm, at_s) for vm in range(10_000)]
        )
        assert len(said) == 10_000
    assert bid_store.newest_bids(connection, [9_999])[9_999].bid == {"cpu": 10_000.0}
