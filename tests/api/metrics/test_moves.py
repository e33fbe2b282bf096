"""Migrations are counted by their result and the reason for them."""

from typing import Any

import pytest

from merkatd.api.metrics.metric_registry import MetricRegistry
from merkatd.database.scheduler.order_store import Order
from tests.api.metrics.reading import samples
from tests.scheduler.frontend import Frontend


def test_migrations_are_counted_by_result_and_reason(frontend: Frontend) -> None:
    """A host is drained: its VM is sent away in this period and confirmed in the next."""
    figures = MetricRegistry("1")
    figures.announced(frontend.periods(2))
    assert not moves(figures)
    frontend.order(Order.DRAIN, frontend.host_of(0))
    figures.announced(frontend.periods(1))
    assert moves(figures) == {("sent", "drained"): 1}
    figures.announced(frontend.periods(1))
    assert moves(figures) == {("sent", "drained"): 1, ("confirmed", "drained"): 1}


def test_migrations_of_an_earlier_daemon_are_counted_as_such(frontend: Frontend) -> None:
    """A daemon that starts during a migration knows its result, but not its reason."""
    frontend.periods(2)
    frontend.order(Order.DRAIN, frontend.host_of(0))
    frontend.periods(1)
    figures = MetricRegistry("1")
    figures.announced(frontend.period())
    assert moves(figures) == {("confirmed", "earlier"): 1}


def test_a_refused_migration_is_counted_as_refused(frontend: Frontend) -> None:
    """It is not counted as sent."""
    figures = MetricRegistry("1")
    frontend.periods(2)
    source = frontend.host_of(0)
    frontend.order(Order.DRAIN, source)
    ask = frontend.transport.call

    async def refuse(method: str, *arguments: Any) -> list[Any]:
        if method == "one.vm.migrate":
            return [False, "[one.vm.migrate] no", 2048, -1, -1]
        return await ask(method, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frontend.transport, "call", refuse)
        figures.announced(frontend.period())
    assert moves(figures) == {("refused", "drained"): 1}


def moves(figures: MetricRegistry) -> dict[tuple[str, str], float]:
    """Return the number of migrations by result and reason, without zeros."""
    return {
        (result, reason): value
        for (name, *labels), value in samples(figures).items()
        if name == "merkat_moves_total" and value
        for reason, result in [labels]
    }
