"""Limit orders that are stated at the same moment, on a real MariaDB."""

from collections.abc import Iterator, Sequence
from threading import Thread
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.database.base.engine import make_engine
from merkatd.database.scheduler import limit_order_store
from merkatd.service.base.callers import LOCAL
from merkatd.service.base.errors import ConflictError
from merkatd.service.base.period_view import prepare
from merkatd.service.market import stated_orders
from tests.scheduler.frontend import Frontend
from tests.served import services_at
from tests.servers import MariaDb

DATABASE = "orderrace"
LONG_S, SHORT_S = 30.0, 0.5


@pytest.fixture
def site(mariadb: MariaDb) -> Iterator[Frontend]:
    """Yield a frontend whose database is in a MariaDB."""
    made = Frontend(engine=make_engine(mariadb.make(DATABASE)))
    yield made
    made.close()
    mariadb.drop(DATABASE)


def state_both(
    site: Frontend, monkeypatch: pytest.MonkeyPatch, first: Sequence[int], second: Sequence[int]
) -> list[Any]:
    """State two orders, the second while the first is being stored; return ids and errors."""
    view = prepare(site.periods(2), site.scheduler.world.markets).now
    orders = services_at(site.scheduler).limit_orders
    real, threads, results = limit_order_store.add, list[Thread](), list[Any]()

    def state(vms: Sequence[int]) -> None:
        try:
            stated = site.result(ensureDeferred(orders.state(LOCAL, view, vms, 3.5)))
        except ConflictError as error:
            results.append(error.text)
        else:
            results.append(stated.id)

    def add(*arguments: Any, **named: Any) -> Any:
        if not threads:
            threads.append(Thread(target=state, args=(second,)))
            threads[0].start()
            threads[0].join(SHORT_S)
        return real(*arguments, **named)

    monkeypatch.setattr(limit_order_store, "add", add)
    state(first)
    threads[0].join(LONG_S)
    assert len(results) == 2
    return results


def test_a_repeated_call_at_the_same_moment_states_one_order(
    site: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program sends its call again because the answer is late: both get the same order."""
    vms = [site.vm(), site.vm()]
    one, other = state_both(site, monkeypatch, vms, vms)
    assert one == other
    assert len(site.read(limit_order_store.living)) == 1


def test_a_vm_gets_into_one_order_at_the_same_moment(
    site: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later call learns which order has the VM."""
    vms = [site.vm(), site.vm(), site.vm()]
    results = state_both(site, monkeypatch, vms[:2], vms[1:])
    (order,) = site.read(limit_order_store.living)
    assert set(results) == {order.id, f"VM {vms[1]} is already in limit order {order.id}"}


def test_the_number_of_orders_holds_at_the_same_moment(
    site: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two calls do not both get the last place."""
    vms = [site.vm(), site.vm(owner=site.user("ann")), site.vm()]
    others: dict[str, Any] = {"limit": 1.0, "least_run_s": 0.0, "factor": 1.0, "stated_s": 0.0}
    # With an order between them, the two orders of the test don't touch the same rows.
    site.read(lambda c: limit_order_store.add(c, owner=2, vms=vms[1:2], **others))
    monkeypatch.setattr(stated_orders, "MOST_ORDERS", 1)
    results = state_both(site, monkeypatch, vms[:1], vms[2:])
    assert len(site.read(limit_order_store.living)) == 2
    assert sorted(type(result).__name__ for result in results) == ["int", "str"]
