"""Limit orders through a running daemon, with the tenants' client."""

from collections.abc import Callable, Iterator

import pytest

from merkatd.client import (
    BadCallError,
    ForbiddenError,
    LimitOrders,
    MissingError,
    UnreachableError,
)
from tests.api.xmlrpc.site import ANN, BOB, Site


@pytest.fixture
def empty(site: Site) -> Iterator[Site]:
    """Yield the site without limit orders, and delete those of the test."""

    def delete() -> None:
        with site.merkat(site.admin) as admin:
            for order in LimitOrders(admin).list():
                LimitOrders(admin).delete(order.id)

    delete()
    yield site
    delete()


def test_an_order_passes_from_its_statement_to_its_end(empty: Site) -> None:
    """Each method has a typed answer, and other tenants see the order in the book alone."""
    with empty.merkat() as ann, empty.merkat(BOB) as bob:
        mine, theirs = LimitOrders(ann), LimitOrders(bob)
        order = mine.set([0], limit=1_000, least_run_s=600, factor=2)
        assert mine.set([0], limit=1_000.0, least_run_s=600.0, factor=2.0) == order
        (listed,) = mine.list()
        assert (listed.id, listed.owner, listed.owner_name) == (order, empty.users["ann"], "ann")
        assert (listed.vms, listed.limit, listed.least_run_s, listed.factor) == ([0], 1e3, 600, 2)
        assert (listed.market, theirs.list()) == ("default", ())
        assert mine.change(order, limit=2_000) == order
        assert mine.list()[0].limit == 2_000
        assert ann.bid_of(0).limit_order == order
        assert ann.explain(0).limit_order == order
        (booked,) = theirs.book()
        assert theirs.book("default")[0].limit == booked.limit >= 2_000
        assert (booked.cpu, booked.memory) == (200.0, 2_048.0)
        assert booked.height is None or booked.height > 0
        assert mine.delete(order) == order
        assert mine.list() == ()
        assert theirs.book() == ()
        assert ann.bid_of(0).limit_order is None


def test_orders_of_other_users_are_protected(empty: Site) -> None:
    """Bob can neither state, change nor delete an order for Ann's VM; administrators can."""
    with empty.merkat() as ann, empty.merkat(BOB) as bob, empty.merkat(empty.admin) as root:
        order = LimitOrders(ann).set([0], limit=1_000)
        theirs = LimitOrders(bob)
        calls: list[Callable[[], int]] = [
            lambda: theirs.set([0], limit=1.0),
            lambda: theirs.set([1, 0], limit=1.0),
            lambda: theirs.change(order, limit=1.0),
            lambda: theirs.delete(order),
        ]
        for forbidden in calls:
            with pytest.raises(ForbiddenError, match="Not authorized to perform MANAGE VM"):
                forbidden()
        with pytest.raises(MissingError):
            theirs.delete(order + 1_000)
        with pytest.raises(MissingError):
            theirs.set([999], limit=1.0)
        with pytest.raises(BadCallError, match="have different owners"):
            LimitOrders(root).set([0, 1], limit=1.0)
        assert [one.id for one in LimitOrders(root).list()] == [order]
        assert LimitOrders(root).change(order, factor=3.0) == order


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1.0), "vms must be an array (got int)"),
        (([0], "1"), "limit must be a double (got str)"),
        (([0], True), "limit must be a double (got bool)"),
        (([0], 1.0, 0.0, 1.0, 1), "takes at most 5 arguments (got 6)"),
        (([0],), "the argument limit is missing"),
    ],
)
def test_wrong_types_are_faults(empty: Site, arguments: tuple[object, ...], message: str) -> None:
    """The fault names the argument, and what it must be."""
    with empty.merkat() as ann:
        with pytest.raises((BadCallError, UnreachableError)) as refused:
            ann.call("merkat.order.set", *arguments)
        assert message in str(refused.value)
        assert LimitOrders(ann).list() == ()


@pytest.mark.parametrize(
    ("vm", "limit", "message"),
    [
        (9223372036854775807, 1, "vms: must be ids of VMs (got 9223372036854775807)"),
        (0, 9223372036854775807, "limit: must be a number above 0"),
    ],
)
def test_numbers_beyond_any_range_are_refused(
    empty: Site, vm: int, limit: int, message: str
) -> None:
    """A number of 64 bits is no VM's id, and more credits than there are."""
    vms = f"<array><data><value><i8>{vm}</i8></value></data></array>"
    values = (ANN, vms, f"<i8>{limit}</i8>")
    parameters = "".join(f"<param><value>{value}</value></param>" for value in values)
    name = "<methodName>merkat.order.set</methodName>"
    call = f"<methodCall>{name}<params>{parameters}</params></methodCall>"
    assert message in empty.post(call.encode())[1].decode()
