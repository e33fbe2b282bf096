"""The base of controllers: requests are sent once, and memory is stored."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from controllers.__main__ import UnknownError, class_of
from controllers.applications.best_effort import BestEffort
from controllers.controller import Controller
from merkatd.protocol.bus_messages import Measured, Remember, Stored
from merkatd.protocol.controller_kinds import CONTROLLERS, known_kinds
from merkatd.protocol.platform_messages import (
    ActionOutcome,
    ClusterTerms,
    GiveUp,
    News,
    ProgressReport,
    SetBids,
    SetSize,
    SuspendPlatform,
    WorkDone,
)
from tests.bus.rig import assignment, news


class Memo:
    """A daemon that accepts every request."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Record the request."""
        assert not action_id
        self.asked.append(body)
        return Stored() if isinstance(body, Remember) else ActionOutcome(accepted=True)


class Saying(Controller):
    """A controller that makes every request."""

    async def on_price(self, news: News) -> None:
        """Make all requests."""
        self.memory["period"] = news.period // 2
        await self.set_bids({1: {"cpu": 2.0}}, "so")
        await self.set_size("workers", 3)
        await self.set_size("workers", victims=[4, 5])
        await self.suspend("dear")
        await self.done()
        await self.give_up("late")
        await self.report(on_track=False)

    async def on_progress(self, measured: Measured) -> None:
        """Record the values."""
        self.memory["seen"] = dict(measured.values)


def test_each_call_of_a_controller_is_an_action() -> None:
    """They keep their order."""
    memo = Memo()
    asyncio.run(Saying(assignment(), memo).take(news()))
    assert memo.asked == [
        SetBids(bids={1: {"cpu": 2.0}}, reason="so"),
        SetSize(cluster="workers", count=3),
        SetSize(cluster="workers", victims=(4, 5)),
        SuspendPlatform(reason="dear"),
        WorkDone(),
        GiveUp(reason="late"),
        ProgressReport(on_track=False),
        Remember(memory={"period": 0}),
    ]


def test_memory_is_stored_when_it_changed_and_is_restored() -> None:
    """It is not sent otherwise."""
    memo = Memo()
    controller = Saying(assignment(memory={"old": True}), memo)
    for period in (1, 2, 3):
        asyncio.run(controller.take(news(period=period)))
    asyncio.run(controller.take(Measured(cluster="workers", at_s=1.0, values={"v": 2.0})))
    kept = [body.memory for body in memo.asked if isinstance(body, Remember)]
    assert len(kept) == 3
    assert kept[-1] == {"old": True, "period": 1, "seen": {"v": 2.0}}


def test_time_is_the_daemons() -> None:
    """The controller has no other clock."""
    controller = Saying(assignment(), Memo())
    asyncio.run(controller.take(news(at_s=500.0, deadline_s=800.0)))
    assert (controller.now_s, controller.left_s()) == (500.0, 300.0)


def test_kinds_are_found_only_by_name(tmp_path: Any) -> None:
    """They come with Merkat or from the site's folder; no path leads out of it."""
    (tmp_path / "mine.py").write_text(
        "from controllers.controller import Controller\nclass Mine(Controller):\n    pass\n"
    )
    (tmp_path / "empty.py").write_text("")
    folder = tmp_path / "inner"
    folder.mkdir()
    assert class_of("controller", "best_effort", tmp_path) is BestEffort
    assert class_of("controller", "mine", tmp_path).__name__ == "Mine"
    assert set(known_kinds(tmp_path)) == {*CONTROLLERS, "empty", "mine"}
    for kind, why in (
        ("../mine", "must be one of"),
        ("Mine", "must be one of"),
        ("empty", "got 0"),
    ):
        with pytest.raises(UnknownError, match=why):
            class_of("controller", kind, folder if "/" in kind else tmp_path)


def test_a_best_effort_platform_without_a_known_size_keeps_its_vms() -> None:
    """It spends its part of the budget."""
    memo = Memo()
    unsized = replace(assignment(), clusters=(ClusterTerms(name="workers", least=1, most=4),))
    asyncio.run(BestEffort(unsized, memo).take(news()))
    kinds = [type(body) for body in memo.asked]
    assert SetSize not in kinds
    assert SetBids in kinds
