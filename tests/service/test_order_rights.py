"""Limit orders: who may state and change them, and which VMs can be in them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from merkatd.api.xmlrpc.errors import Code
from merkatd.cluster.columns import NO_MARKET
from merkatd.cluster.orders import LimitOrder
from merkatd.database.fleets import group_store, platform_store
from merkatd.database.fleets.fleet_store import PLATFORM_VMS, PlatformMember
from merkatd.database.fleets.group_store import GroupRow
from merkatd.database.fleets.group_vm_store import GROUP_MEMBERS, GroupMember
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.database.scheduler import limit_order_store
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules
from merkatd.service.base.errors import InvalidRequestError
from tests.scheduler.frontend import SESSION
from tests.service.interfaces import Interfaces
from tests.service.stated_limit_orders import (
    ANN,
    BOB,
    CHANGE,
    DELETE,
    SET,
    other,
    owner_of,
    state,
    stored,
    view_of,
    without_orders,
    write,
)


@pytest.fixture
def asked() -> Iterator[Interfaces]:
    """Yield the interfaces of a cloud without orders."""
    yield from without_orders()


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
