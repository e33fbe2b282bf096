"""Limit orders of tenants: who may state them, what is refused, and what others see of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from twisted.internet.defer import ensureDeferred

from merkatd.api.xmlrpc.errors import Code
from merkatd.cluster.columns import NO_MARKET
from merkatd.cluster.orders import LimitOrder, OrderOutcome
from merkatd.currency.settings import MoneySettings
from merkatd.database.database import transaction
from merkatd.database.fleets import group_store, platform_store
from merkatd.database.fleets.fleet_store import PLATFORM_VMS, PlatformMember
from merkatd.database.fleets.group_store import GroupRow
from merkatd.database.fleets.group_vm_store import GROUP_MEMBERS, GroupMember
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.database.scheduler import limit_order_store
from merkatd.market.price import PriceRule
from merkatd.placement.base.strategy import Pricing
from merkatd.scheduler.base.settings import MarketRules
from merkatd.service.base.callers import LOCAL
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.order_limits import OrderCounts
from merkatd.service.base.period_view import PeriodView
from merkatd.service.market import stated_orders
from tests.scheduler.frontend import PASSWORD, SESSION, Frontend
from tests.service.interfaces import Interfaces, contended

ANN, BOB = f"ann:{PASSWORD}", f"bob:{PASSWORD}"
SET, CHANGE, DELETE = "merkat.order.set", "merkat.order.change", "merkat.order.delete"


@pytest.fixture
def asked() -> Iterator[Interfaces]:
    """Yield interfaces with Ann's VMs 0 and 1 and Bob's 2 and 3; all may use VM 1."""
    yield from contended(Frontend(hosts=1, money=MoneySettings(supply=1e6, starting_credits=1e4)))


def owner_of(asked: Interfaces, vm: int) -> int:
    """Return the owner of a VM in the cloud."""
    return asked.frontend.bench.vm(vm).uid


def stored(asked: Interfaces) -> tuple[LimitOrder, ...]:
    """Return all stored limit orders."""
    orders: tuple[LimitOrder, ...] = asked.frontend.read(limit_order_store.living)
    return orders


def view_of(asked: Interfaces) -> PeriodView:
    """Return the view of the latest period."""
    view: PeriodView = asked.frontend.result(ensureDeferred(asked.services.views.prepared())).now
    return view


def write(asked: Interfaces, work: Any) -> Any:
    """Return the result of a function that writes."""
    return transaction(asked.frontend.engine, work)


def state(asked: Interfaces, view: PeriodView, vms: Sequence[Any], limit: Any = 3.5) -> Any:
    """State an order as an administrator, with this view of the latest period."""
    stating = asked.services.limit_orders.state(LOCAL, view, vms, limit)
    return asked.frontend.result(ensureDeferred(stating))


class Wakes:
    """The number of times that the scheduler was woken."""

    def __init__(self, asked: Interfaces, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(asked.frontend.scheduler, "wake", self._wake)

    def _wake(self) -> None:
        self.count += 1


def test_an_order_is_stated_changed_and_deleted(
    asked: Interfaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change starts the next period early; a call that changes nothing does not."""
    wakes = Wakes(asked, monkeypatch)
    id_, code = asked.call(ANN, SET, [1, 0], 3.5, 600.0, 2)
    assert (code, wakes.count) == (0, 1)
    (order,) = stored(asked)
    assert (order.id, order.owner, order.vms) == (id_, owner_of(asked, 0), (0, 1))
    assert (order.limit, order.least_run_s, order.factor) == (3.5, 600.0, 2.0)
    assert order.stated_s == asked.frontend.clock.seconds()
    assert asked.call(ANN, SET, [0, 1], 3.5, 600.0, 2.0) == (id_, 0)
    assert (stored(asked), wakes.count) == ((order,), 1)
    assert asked.call(ANN, CHANGE, id_, {"limit": 4.0}) == (id_, 0)
    assert stored(asked) == (replace(order, limit=4.0),)
    assert asked.call(ANN, CHANGE, id_, {"least_run_s": 0, "factor": 1}) == (id_, 0)
    assert wakes.count == 3
    assert asked.call(ANN, CHANGE, id_, {"limit": 4.0}) == (id_, 0)
    assert (stored(asked), wakes.count) == (
        (replace(order, limit=4.0, least_run_s=0.0, factor=1.0),),
        3,
    )
    assert asked.call(ANN, DELETE, id_) == (id_, 0)
    assert (stored(asked), wakes.count) == ((), 4)
    assert asked.call(ANN, DELETE, id_)[1] == Code.NO_EXISTS
    assert asked.call(ANN, CHANGE, id_, {"limit": 4.0})[1] == Code.NO_EXISTS
    assert wakes.count == 4


@pytest.mark.parametrize(
    ("vms", "limit", "least_run_s", "factor", "text"),
    [
        ([], 1.0, 0.0, 1.0, "vms: must be 1 to 1000 VMs (got 0)"),
        (list(range(1_001)), 1.0, 0.0, 1.0, "vms: must be 1 to 1000 VMs (got 1001)"),
        ([0, 1, 0], 1.0, 0.0, 1.0, "vms: must name each VM once (got VM 0 twice)"),
        ([0, "1"], 1.0, 0.0, 1.0, "vms: must be ids of VMs (got '1')"),
        ([True], 1.0, 0.0, 1.0, "vms: must be ids of VMs (got True)"),
        ([1.0], 1.0, 0.0, 1.0, "vms: must be ids of VMs (got 1.0)"),
        ([-1], 1.0, 0.0, 1.0, "vms: must be ids of VMs (got -1)"),
        ([[0]], 1.0, 0.0, 1.0, "vms: must be ids of VMs (got [0])"),
        ([0], 0.0, 0.0, 1.0, "limit: must be a number above 0, at most 1e+15 (got 0.0)"),
        ([0], -1.0, 0.0, 1.0, "limit: must be"),
        ([0], 1.1e15, 0.0, 1.0, "limit: must be"),
        ([0], float("nan"), 0.0, 1.0, "limit: must be"),
        ([0], float("inf"), 0.0, 1.0, "limit: must be"),
        ([0], 1.0, -1.0, 1.0, "least_run_s: must be from 0 to 2592000 seconds, 30 days (got -1.0)"),
        ([0], 1.0, 2_592_001.0, 1.0, "least_run_s: must be"),
        ([0], 1.0, float("nan"), 1.0, "least_run_s: must be"),
        ([0], 1.0, 0.0, 0.9, "factor: must be a number from 1 to 100 (got 0.9)"),
        ([0], 1.0, 0.0, 100.5, "factor: must be"),
        ([0], 1.0, 0.0, float("nan"), "factor: must be"),
    ],
)
def test_wrong_arguments_are_refused(
    asked: Interfaces, vms: list[Any], limit: float, least_run_s: float, factor: float, text: str
) -> None:
    """The error names the argument, the value and what is accepted, at both interfaces."""
    answer, code = asked.call(ANN, SET, vms, limit, least_run_s, factor)
    assert (code, stored(asked)) == (Code.RPC_API, ())
    assert text in answer
    terms = {"limit": limit, "least_run_s": least_run_s, "factor": factor}
    if vms != [0, "1"]:  # the control socket takes names too
        assert text in asked.control("limit_order_set", vms=vms, **terms)
    assert stored(asked) == ()


def test_wrong_changes_are_refused(asked: Interfaces) -> None:
    """The order stays."""
    id_, _ = asked.call(ANN, SET, [0], 3.5)
    (order,) = stored(asked)
    for terms, text in (
        ({}, "at least one must be given"),
        ({"limit": 0.0}, "limit: must be"),
        ({"limit": "4"}, "limit: must be"),
        ({"limit": True}, "limit: must be"),
        ({"least_run_s": -1}, "least_run_s: must be"),
        ({"factor": 101}, "factor: must be"),
        ({"price": 1.0}, "unknown member 'price'"),
    ):
        answer, code = asked.call(ANN, CHANGE, id_, terms)
        assert (code, text in answer) == (Code.RPC_API, True), answer
    assert stored(asked) == (order,)
    assert "must be the id" in asked.control("limit_order_change", limit=1.0)
    assert "must be a list" in asked.control("limit_order_set", vms="0", limit=1.0)
    assert "must be a list" in asked.control("limit_order_set", limit=1.0)
    assert "limit: must be" in asked.control("limit_order_set", vms=[0])


def test_vms_that_no_period_has_seen_are_unknown(asked: Interfaces) -> None:
    """The error is that of OpenNebula for a VM that does not exist."""
    answer, code = asked.call(ANN, SET, [0, 99], 3.5)
    assert (answer, code) == (f"[{SET}] Error getting virtual machine [99].", Code.NO_EXISTS)
    assert asked.call(ANN, SET, [2**31 - 1], 3.5)[1] == Code.NO_EXISTS
    assert stored(asked) == ()


def test_the_right_to_manage_every_vm_is_needed(asked: Interfaces) -> None:
    """The right to use a VM is not enough, and one foreign VM among own ones is too many."""
    for login, vms in ((BOB, [1]), (BOB, [2, 1]), (ANN, [0, 2]), (ANN, [3])):
        assert asked.call(login, SET, vms, 3.5)[1] == Code.AUTHORIZATION
    assert stored(asked) == ()
    # With the right to manage, Bob states an order for Ann's VM: she is the owner, and pays.
    asked.frontend.bench.ok("one.vm.chmod", 1, 1, 1, 0, 0, 0, 0, 1, 1, 0)
    id_, code = asked.call(BOB, SET, [1], 3.5)
    assert code == 0
    assert stored(asked)[0].owner == owner_of(asked, 1)
    assert asked.call(BOB, CHANGE, id_, {"limit": 1.0})[1] == 0
    asked.frontend.bench.ok("one.vm.chmod", 1, 1, 1, 0, 0, 0, 0, 1, 0, 0)
    assert asked.call(BOB, CHANGE, id_, {"limit": 2.0})[1] == Code.AUTHORIZATION
    assert asked.call(BOB, DELETE, id_)[1] == Code.AUTHORIZATION
    assert stored(asked)[0].limit == 1.0
    assert asked.call(SESSION, DELETE, id_)[1] == 0


def test_anothers_order_is_protected(asked: Interfaces) -> None:
    """Bob may use both VMs of Ann's order; he neither changes, deletes nor lists it."""
    asked.frontend.bench.ok("one.vm.chmod", 0, 1, 1, 0, 0, 0, 0, 1, 0, 0)
    id_, _ = asked.call(ANN, SET, [0, 1], 3.5)
    assert asked.call(BOB, CHANGE, id_, {"limit": 0.1})[1] == Code.AUTHORIZATION
    assert asked.call(BOB, DELETE, id_)[1] == Code.AUTHORIZATION
    assert asked.call(BOB, "merkat.order.list") == ([], 0)
    assert [order["id"] for order in asked.call(ANN, "merkat.order.list")[0]] == [id_]
    assert [order["id"] for order in asked.call(SESSION, "merkat.order.list")[0]] == [id_]
    assert stored(asked)[0].limit == 3.5


def test_a_vm_given_away_leaves_its_order(asked: Interfaces) -> None:
    """Its former owner can't state an order for it at once, nor keep it in one for a period."""
    id_, _ = asked.call(ANN, SET, [0, 1], 3.5)
    bob = owner_of(asked, 2)
    asked.frontend.bench.ok("one.vm.chown", 0, bob, -1)
    assert asked.call(BOB, CHANGE, id_, {"limit": 9.0})[1] == Code.AUTHORIZATION
    assert asked.call(BOB, DELETE, id_)[1] == Code.AUTHORIZATION
    asked.periods(1)
    assert [order.vms for order in stored(asked)] == [(1,)]
    assert asked.call(ANN, SET, [0], 3.5)[1] == Code.AUTHORIZATION
    assert asked.call(BOB, SET, [0, 2], 3.5)[1] == 0
    # Between two periods the last one does not know the new owner: OpenNebula is asked.
    asked.frontend.bench.ok("one.vm.chown", 3, owner_of(asked, 1), -1)
    assert asked.call(BOB, SET, [3], 3.5)[1] == Code.AUTHORIZATION
    assert asked.call(ANN, SET, [3], 3.5)[1] == 0
    assert stored(asked)[-1].owner == bob
    asked.periods(1)
    assert [order.vms for order in stored(asked)] == [(1,), (0, 2)]


def test_a_vm_that_is_gone_leaves_its_order(asked: Interfaces) -> None:
    """The others stay in it; an order whose VMs are all gone is deleted."""
    asked.call(ANN, SET, [0, 1], 3.5)
    asked.call(BOB, SET, [2], 3.5)
    for vm in (0, 2):
        asked.frontend.bench.ok("one.vm.action", "terminate-hard", vm)
    asked.frontend.clock.advance(60)
    asked.periods(1)
    assert [order.vms for order in stored(asked)] == [(1,)]


def test_a_vm_is_in_one_order(asked: Interfaces) -> None:
    """The error names the order, also for the same VMs with other terms."""
    id_, _ = asked.call(ANN, SET, [0], 3.5, 60.0, 2.0)
    text = f"VM 0 is already in limit order {id_}"
    for vms, *terms in (
        ([0, 1], 3.5, 60.0, 2.0),
        ([0], 3.6, 60.0, 2.0),
        ([0], 3.5, 61.0, 2.0),
        ([0], 3.5, 60.0, 2.1),
    ):
        answer, code = asked.call(ANN, SET, vms, *terms)
        assert (code, text in answer) == (Code.RPC_API, True)
    assert len(stored(asked)) == 1


def other(view: PeriodView, **columns: Any) -> PeriodView:
    """Return a view in which VM 1 has these values."""
    vms = view.snapshot.vms
    changed = {}
    for name, value in columns.items():
        column = getattr(vms, name).copy()
        column[1] = value
        changed[name] = column
    return replace(view, snapshot=replace(view.snapshot, vms=replace(vms, **changed)))


@pytest.mark.parametrize(
    ("column", "value", "what"),
    [("owner", 77, "owners"), ("application", 5, "payers"), ("market", NO_MARKET, "markets")],
)
def test_vms_of_different_tenants_payers_or_markets_are_refused(
    asked: Interfaces, column: str, value: int, what: str
) -> None:
    """The error names two such VMs."""
    view = other(view_of(asked), **{column: value})
    with pytest.raises(InvalidRequestError, match=f"VM 0 and VM 1 have different {what}; the VMs"):
        state(asked, view, [0, 1])
    assert "have different owners" in asked.control("limit_order_set", vms=[0, 2], limit=1.0)
    assert stored(asked) == ()


def test_a_vm_of_no_market_is_refused(asked: Interfaces) -> None:
    """It keeps the size of its template."""
    view = other(view_of(asked), market=NO_MARKET)
    with pytest.raises(InvalidRequestError, match="VM 1 belongs to no market"):
        state(asked, view, [1])


@pytest.mark.parametrize(
    "rules", [MarketRules(strategy="groups"), MarketRules(pricing=Pricing(rule=PriceRule.PAPER))]
)
def test_some_markets_have_no_orders(asked: Interfaces, rules: MarketRules) -> None:
    """These are markets that charge for use, and those with the paper's price rule."""
    view = view_of(asked)
    world = asked.frontend.scheduler.world
    asked.frontend.scheduler.world = replace(world, markets=(rules,))
    with pytest.raises(InvalidRequestError, match=r"in market default, which has no limit orders"):
        state(asked, view, [1])


def group_of(connection: sa.Connection, owner: int, vm: int) -> int:
    """Store a group with a spending rate that has this VM."""
    row = GroupRow(
        token=str(vm), name="g", owner=owner, user_group=1, permissions=0, market="default",
        template="CPU=1", spending_rate=1.0, nvm=1, created_s=0.0,
    )  # fmt: skip
    group = group_store.add(connection, row).id
    member = GroupMember(key="k", vm_group=group, owner=owner, number=1, vm=vm)
    GROUP_MEMBERS.add(connection, [member])
    return group


def platform_of(connection: sa.Connection, owner: int, vm: int) -> int:
    """Store a platform that has this VM."""
    row = PlatformRow(
        token=str(vm), owner=owner, name="p", account=None, template="", vm_templates={},
        state="running", submitted_s=0.0, since_s=0.0, deadline_s=None, sizes={},
    )  # fmt: skip
    platform = platform_store.add(connection, row).id
    member = PlatformMember(key="k", platform=platform, cluster="c", number=1, vm=vm)
    PLATFORM_VMS.add(connection, [member])
    return platform


@pytest.mark.parametrize("kind", ["group", "platform"])
def test_vms_of_groups_and_platforms_are_refused(asked: Interfaces, kind: str) -> None:
    """Their bids come from elsewhere. A VM that was given away or is gone has left."""
    ann = owner_of(asked, 0)
    store = group_of if kind == "group" else platform_of
    id_ = write(asked, lambda c: store(c, ann, 1))
    text = f"onegroup edit {id_} -s RATE" if kind == "group" else f"belongs to platform {id_}"
    answer, code = asked.call(ANN, SET, [0, 1], 3.5)
    assert (code, text in answer) == (Code.RPC_API, True)
    assert asked.call(ANN, SET, [0], 3.5)[1] == 0
    members: Any = GROUP_MEMBERS if kind == "group" else PLATFORM_VMS
    write(asked, lambda c: members.mark_gone(c, ["k"], 0.0))
    assert asked.call(ANN, SET, [1], 3.5)[1] == 0


@pytest.mark.parametrize("kind", ["group", "platform"])
def test_a_vm_that_left_its_group_or_platform_is_accepted(asked: Interfaces, kind: str) -> None:
    """A VM of another owner than its group or platform bids for itself."""
    store = group_of if kind == "group" else platform_of
    write(asked, lambda c: store(c, owner_of(asked, 2), 1))
    assert asked.call(ANN, SET, [1], 3.5)[1] == 0


def test_an_owner_has_a_limited_number_of_orders(
    asked: Interfaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated call still returns its order; another owner has its own number."""
    monkeypatch.setattr(stated_orders, "MOST_ORDERS", 1)
    id_, _ = asked.call(ANN, SET, [0], 3.5)
    answer, code = asked.call(ANN, SET, [1], 3.5)
    assert code == Code.RPC_API
    assert f"User {owner_of(asked, 0)} has 1 limit orders (at most 1): delete one" in answer
    assert asked.call(ANN, SET, [0], 3.5) == (id_, 0)
    assert asked.call(BOB, SET, [2], 3.5)[1] == 0


def test_every_vm_of_an_order_counts_as_an_order(asked: Interfaces) -> None:
    """For each VM the daemon asks OpenNebula: a tenant can't cause any number of such calls."""
    orders = OrderCounts(asked.frontend.clock, per_hour=1.05)
    object.__setattr__(asked.services, "orders", orders)
    codes = [asked.call(ANN, SET, [0, 1], 3.5)[1] for _ in range(12)]
    assert codes == [0] * 10 + [Code.ACTION] * 2
    assert {asked.call(SESSION, SET, [0, 1], 3.5)[1] for _ in range(25)} == {0}


def test_an_order_that_is_deleted_meanwhile_is_unknown(
    asked: Interfaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is deleted after the check of rights, and before the change."""
    real = limit_order_store.of_ids

    def of_ids(connection: sa.Connection, ids: Any, *, lock: bool = False) -> Any:
        if lock:
            limit_order_store.withdraw(connection, ids)
        return real(connection, ids, lock=lock)

    id_, _ = asked.call(ANN, SET, [0], 3.5)
    monkeypatch.setattr(limit_order_store, "of_ids", of_ids)
    for call in ((CHANGE, id_, {"limit": 4.0}), (DELETE, id_)):
        answer, code = asked.call(ANN, *call)
        assert code == Code.NO_EXISTS
        assert f"Error getting limit order [{id_}]." in answer


def test_a_running_order_shows_the_limit_in_force(asked: Interfaces) -> None:
    """After its start it is higher; the outcome of the period is shown."""
    id_, _ = asked.call(ANN, SET, [0, 1], 3.0, 100.0, 4.0)
    now_s = asked.frontend.clock.seconds()
    outcome = OrderOutcome(id_, runs=True, cost=2.5, why="")
    write(asked, lambda c: limit_order_store.record_outcomes(c, [outcome], now_s))
    (row,), _ = asked.call(ANN, "merkat.order.list")
    shown = {name: row[name] for name in ("limit", "limit_now", "runs", "since_s", "cost")}
    assert shown == {"limit": 3.0, "limit_now": 12.0, "runs": True, "since_s": now_s, "cost": 2.5}
    asked.frontend.clock.advance(100)
    (row,), _ = asked.call(ANN, "merkat.order.list")
    assert row["limit_now"] == 3.0
    (booked,), _ = asked.call(BOB, "merkat.order.book")
    assert (booked["limit"], booked["runs"]) == (3.0, True)


def test_the_book_has_the_orders_of_all_by_height(asked: Interfaces) -> None:
    """The bundle is the sum of full sizes; the height compares its cost with the limit."""
    asked.call(ANN, SET, [0, 1], 10.0)
    asked.call(BOB, SET, [2], 6.0)
    asked.call(BOB, SET, [3], 4.0)
    rows, code = asked.call(BOB, "merkat.order.book", "default")
    assert code == 0
    assert [row["limit"] for row in rows] == [6.0, 10.0, 4.0]
    assert [row["cpu"] for row in rows] == [400.0, 800.0, 400.0]
    prices = {row["resource"]: row["price"] for row in asked.control("price")}
    for row in rows:
        assert set(row) == {"height", "limit", "runs", "cpu", "memory"}
        cost = row["cpu"] * prices["cpu"] + row["memory"] * prices["memory"]
        assert row["height"] == pytest.approx(row["limit"] / cost)
    assert rows == asked.call(ANN, "merkat.order.book")[0] == asked.control("limit_order_book")
    answer, code = asked.call(ANN, "merkat.order.book", "other")
    assert (code, "market: must be one of default (got 'other')" in answer) == (Code.RPC_API, True)


@pytest.mark.parametrize("reserve", [{}, {"cpu": 0.01, "memory": 0.001}])
def test_without_prices_the_reserve_prices_count(
    asked: Interfaces, reserve: dict[str, float]
) -> None:
    """An order without any price has no height and stands at the end, as an unlimited one does."""
    asked.call(ANN, SET, [0], 5.0)
    asked.call(BOB, SET, [2], 4.0)
    world = asked.frontend.scheduler.world
    rules = replace(world.markets[0], pricing=Pricing(reserve=reserve))
    asked.frontend.scheduler.world = replace(world, markets=(rules,))
    view = view_of(asked)
    prices = np.full_like(view.decision.prices, np.inf)
    cap = view.snapshot.vms.cap.copy()
    cap[0] = (0.0, np.inf)
    vms = replace(view.snapshot.vms, cap=cap)
    view = replace(
        view,
        decision=replace(view.decision, prices=prices),
        snapshot=replace(view.snapshot, vms=vms),
    )
    book = asked.services.limit_orders.book
    rows = asked.frontend.result(ensureDeferred(book(LOCAL, view, None)))
    shown = [(row.limit, row.height, row.bundle["memory"]) for row in rows]
    if reserve:
        assert shown == [(4.0, pytest.approx(4.0 / (4.0 + 2.048)), 2048.0), (5.0, None, None)]
    else:
        assert shown == [(5.0, None, None), (4.0, None, 2048.0)]


def test_another_market_has_its_own_book(asked: Interfaces) -> None:
    """An order whose VMs no period has seen yet, or not any more, is in no book."""
    asked.call(ANN, SET, [1], 5.0)
    view = other(view_of(asked), market=NO_MARKET)
    book = asked.services.limit_orders.book
    assert asked.frontend.result(ensureDeferred(book(LOCAL, view, None))) == []
    write(
        asked,
        lambda c: limit_order_store.add(
            c, owner=2, vms=[777], limit=1.0, least_run_s=0.0, factor=1.0, stated_s=0.0
        ),
    )
    assert len(asked.control("limit_order_book")) == 1
    assert [row["market"] for row in asked.control("limit_orders")] == ["default", None]


def test_a_bid_and_an_explanation_name_the_order(asked: Interfaces) -> None:
    """The VM's own bid can be changed meanwhile; it counts again later."""
    assert asked.call(ANN, "merkat.bid.info", 0)[0].get("limit_order") is None
    id_, _ = asked.call(ANN, SET, [0], 3.5)
    for method, arguments in (
        ("merkat.bid.info", ()),
        ("merkat.bid.set", ({"cpu": 9.0},)),
        ("merkat.vm.explain", ()),
    ):
        assert asked.call(ANN, method, 0, *arguments)[0]["limit_order"] == id_
        assert "limit_order" not in asked.call(ANN, method, 1, *arguments)[0]
    assert asked.control("bid", vm="0")["limit_order"] == id_
    assert asked.control("explain", vm="0")["limit_order"] == id_


def test_names_of_vms_are_accepted_by_the_control_socket(asked: Interfaces) -> None:
    """Ids as text, names, and ids mean the same VMs; a name that several have is an error."""
    made = asked.control("limit_order_set", vms=["vm-0", "1"], limit=3.5)
    assert made["vms"] == [0, 1]
    assert asked.control("limit_order_set", vms=[0, 1], limit=3.5) == made
    asked.frontend.bench.ok("one.vm.rename", 3, "vm-2")
    asked.periods(1)
    assert "2 VMs have the name" in asked.control("limit_order_set", vms=["vm-2"], limit=1.0)
    assert "no VM has the id" in asked.control("limit_order_set", vms=["98"], limit=1.0)
    # Too many names are not looked up.
    assert "1 to 1000 VMs" in asked.control("limit_order_set", vms=["x"] * 1_001, limit=1.0)


def test_a_daemon_without_a_period_states_nothing() -> None:
    """It knows no VM yet."""
    frontend = Frontend(hosts=1)
    asked = Interfaces(frontend)
    for call in ((SET, [0], 3.5), ("merkat.order.list",), ("merkat.order.book",)):
        assert asked.call(SESSION, *call)[1] == Code.ACTION
    frontend.close()


def test_the_order_of_a_platform_is_changed_by_its_platform_only(asked: Interfaces) -> None:
    """Its owner can list it; other tenants do not learn of the platform."""

    def store(connection: sa.Connection) -> LimitOrder:
        return limit_order_store.add(
            connection,
            owner=owner_of(asked, 0),
            vms=[0],
            limit=3.0,
            least_run_s=0.0,
            factor=2.0,
            stated_s=0.0,
            platform=7,
        )

    order = write(asked, store)
    for method, more in ((CHANGE, ({"limit": 4.0},)), (DELETE, ())):
        text, code = asked.call(ANN, method, order.id, *more)
        assert f"Limit order {order.id} belongs to platform 7" in text
        assert code
        assert "platform" not in asked.call(BOB, method, order.id, *more)[0]
    assert stored(asked) == (order,)
