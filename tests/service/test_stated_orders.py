"""Limit orders of tenants: how they are stated, changed and deleted, and what is refused."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from merkatd.api.xmlrpc.errors import Code
from merkatd.database.scheduler import limit_order_store
from merkatd.service.base.order_limits import OrderCounts
from merkatd.service.market import stated_orders
from tests.scheduler.frontend import SESSION, Frontend
from tests.service.interfaces import Interfaces
from tests.service.stated_limit_orders import (
    ANN,
    BOB,
    CHANGE,
    DELETE,
    SET,
    owner_of,
    stored,
    without_orders,
)


@pytest.fixture
def asked() -> Iterator[Interfaces]:
    """Yield the interfaces of a cloud without orders."""
    yield from without_orders()


class Wakes:
    """The users for whom the scheduler was woken."""

    def __init__(self, asked: Interfaces, monkeypatch: pytest.MonkeyPatch) -> None:
        self.users: list[int] = []
        monkeypatch.setattr(asked.frontend.scheduler, "wake_for", self.users.append)

    @property
    def count(self) -> int:
        """Return the number of times."""
        return len(self.users)


def test_an_order_is_stated_changed_and_deleted(
    asked: Interfaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change starts a period early for its user; a call that changes nothing does not."""
    wakes = Wakes(asked, monkeypatch)
    ann = owner_of(asked, 0)
    id_, code = asked.call(ANN, SET, [1, 0], 3.5, 600.0, 2)
    assert (code, wakes.count) == (0, 1)
    (order,) = stored(asked)
    assert (order.id, order.owner, order.vms) == (id_, ann, (0, 1))
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
    assert wakes.users == [ann] * 4
    asked.call(SESSION, SET, [0], 3.5)
    assert wakes.users[4:] == [0]


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
