"""What the page of limit orders says of orders that run, wait and were displaced."""

from collections.abc import Iterator
from html import unescape

import pytest

from merkatd.cluster.orders import OrderOutcome
from merkatd.currency.settings import MoneySettings
from merkatd.database.database import transaction
from merkatd.database.scheduler import limit_order_store
from tests.scheduler.frontend import PASSWORD, Frontend
from tests.service.interfaces import Interfaces, contended

ANN = f"ann:{PASSWORD}"


@pytest.fixture
def asked() -> Iterator[Interfaces]:
    """Yield interfaces with Ann's VMs 0 and 1 and Bob's 2 and 3; all may use VM 1."""
    yield from contended(Frontend(hosts=1, money=MoneySettings(supply=1e6, starting_credits=1e4)))


def decided(asked: Interfaces, order: int, *, runs: bool, cost: float, why: str = "") -> None:
    """Store an outcome of an order."""
    at_s = asked.frontend.clock.seconds()
    outcome = OrderOutcome(order, runs, cost, why)
    transaction(
        asked.frontend.engine,
        lambda c: limit_order_store.record_outcomes(c, [outcome], at_s),
    )


def text_of(asked: Interfaces, path: str) -> str:
    """Return the text of Ann's page."""
    return unescape(asked.page(ANN, path).body.decode())


def test_each_state_has_its_word(asked: Interfaces) -> None:
    """A new order waits for its first period; one that ran and does not any more was displaced."""
    order, _ = asked.call(ANN, "merkat.order.set", [0], 2.5)
    at = f"/limit-orders/{order}"
    assert "The next period decides whether its VMs run." in text_of(asked, at)
    decided(asked, order, runs=False, cost=0.0, why="limit order 1 waits: too low")
    assert '<span class="badge">waits</span>' in text_of(asked, "/limit-orders")
    assert "It waits: too low. Its VMs cost nothing." in text_of(asked, at)
    decided(asked, order, runs=True, cost=1.25)
    assert '<span class="badge">runs</span>' in text_of(asked, "/limit-orders")
    assert "Its VMs run, and cost 1.25 credits a period together." in text_of(asked, at)
    decided(asked, order, runs=False, cost=0.0, why="limit order 1 waits: too low")
    assert '<span class="badge bad">displaced</span>' in text_of(asked, "/limit-orders")


def test_the_order_of_a_platform_has_no_form(asked: Interfaces) -> None:
    """It follows its platform, to which the page leads."""
    order, _ = asked.call(ANN, "merkat.order.set", [0], 2.5)
    at = f"/limit-orders/{order}"
    assert f'action="{at}/quote"' in text_of(asked, at)
    transaction(
        asked.frontend.engine,
        lambda c: c.exec_driver_sql("UPDATE limit_orders SET platform = 7").rowcount,
    )
    assert f'action="{at}/quote"' not in text_of(asked, at)
    assert 'href="/platforms/7"' in text_of(asked, at)
    assert asked.page(ANN, f"{at}/withdraw", x="").status == 422
