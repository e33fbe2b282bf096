"""Moves are counted by what became of them, and why they were decided."""

from typing import Any

import pytest

from merkatd.api.metrics.metric_registry import MetricRegistry
from merkatd.database.scheduler.order_store import Order
from tests.api.metrics.reading import samples
from tests.scheduler.frontend import Frontend


def test_moves_are_counted_by_what_became_of_them_and_why(frontend: Frontend) -> None:
    """A host is drained: its VM is sent away in this period and seen elsewhere in the next."""
    figures = MetricRegistry("1")
    figures.announced(frontend.periods(2))
    assert not moves(figures)
    frontend.order(Order.DRAIN, frontend.host_of(0))
    figures.announced(frontend.periods(1))
    assert moves(figures) == {("sent", "drained"): 1}
    figures.announced(frontend.periods(1))
    assert moves(figures) == {("sent", "drained"): 1, ("confirmed", "drained"): 1}


def test_moves_of_a_daemon_before_are_counted_as_such(frontend: Frontend) -> None:
    """Whoever starts in the middle of one knows what became of it, but not why it was decided."""
    frontend.periods(2)
    frontend.order(Order.DRAIN, frontend.host_of(0))
    frontend.periods(1)
    figures = MetricRegistry("1")
    figures.announced(frontend.period())
    assert moves(figures) == {("confirmed", "earlier"): 1}


def test_a_move_that_opennebula_refuses_is_one_that_was_refused(frontend: Frontend) -> None:
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
    """By result and reason, those that there were."""
    return {
        (result, reason): value
        for (name, *labels), value in samples(figures).items()
        if name == "merkat_moves_total" and value
        for reason, result in [labels]
    }
