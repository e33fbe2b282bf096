"""A wrong decision of one strategy stops only its own market, and the log has it once."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from twisted.logger import LogLevel, capturedLogs, formatEvent

from merkatd.cluster import Create, Decision, Deploy, Plan, Snapshot, Suspend
from merkatd.database.scheduler.order_store import Order
from merkatd.placement.registry import STRATEGIES
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.base.troubles import FailedMarkets
from tests.scheduler.frontend import Frontend

PLAIN = STRATEGIES["tabu"]


def _steps(snapshot: Snapshot, decision: Decision, wrong: str) -> Decision:
    period, why = snapshot.period, "as a test of mistakes"
    made = {
        "creation": Create(period=period, reason=why, key="k", template="NAME=x", owner=0),
        "unknown VM": Suspend(period=period, vm=4711, reason=why),
        "other market": Deploy(period=period, vm=1, host=1, reason=why),
    }
    return replace(decision, plan=Plan((made[wrong],)))


def _numbers(snapshot: Snapshot, decision: Decision, wrong: str) -> Decision:
    many = np.full(snapshot.vms.bid.shape, 1e9 if wrong == "too much" else np.nan)
    return replace(decision, allocations=many)


def _memory(_snapshot: Snapshot, decision: Decision, _wrong: str) -> Decision:
    return replace(decision, memory={"far": float("inf")})


KINDS = {
    "creation": _steps,
    "unknown VM": _steps,
    "other market": _steps,
    "too much": _numbers,
    "not a number": _numbers,
    "memory": _memory,
}


class Mistaken:
    """The default strategy, with a mistake at will."""

    def __init__(self) -> None:
        self.wrong: str | None = None

    def decide(
        self,
        snapshot: Snapshot,
        settings: Any,
        memory: Mapping[str, Any],
        random: np.random.Generator,
    ) -> Decision:
        """Return the default strategy's decision, or a wrong one."""
        decision = PLAIN.strategy(snapshot, settings, memory, random)
        if self.wrong is None:
            return decision
        return KINDS[self.wrong](snapshot, decision, self.wrong)


@pytest.fixture
def mistaken() -> Iterator[Mistaken]:
    """Replace the default strategy."""
    entries, made = cast("dict[str, Any]", STRATEGIES), Mistaken()
    entries["tabu"] = replace(PLAIN, strategy=made.decide)
    yield made
    entries["tabu"] = PLAIN


@pytest.fixture
def frontend(mistaken: Mistaken) -> Iterator[Frontend]:
    """Yield host 0 in the default market and host 1 in another, with another strategy."""
    assert mistaken.wrong is None
    other = MarketRules(name="other", strategy="paper", cluster_names=frozenset({"other"}))
    made = Frontend(hosts=2, markets=(MarketRules(), other))
    cluster = made.bench.ok("one.cluster.allocate", "other")
    made.bench.ok("one.cluster.adddatastore", cluster, 0)
    made.bench.ok("one.cluster.addhost", cluster, 1)
    yield made
    made.agree()
    made.close()


def words(events: list[Any]) -> list[str]:
    """Return the logged mistakes."""
    texts = [formatEvent(e) or "" for e in events if e["log_level"] >= LogLevel.error]
    return [text for text in texts if "market default" in text]


@pytest.mark.parametrize("wrong", KINDS)
def test_only_its_own_market_stops(wrong: str, frontend: Frontend, mistaken: Mistaken) -> None:
    """Its VMs keep their host and their share; VMs of other markets start; then it goes on."""
    here = frontend.vm(SCHED_REQUIREMENTS="ID = 0")
    frontend.periods(3)
    mistaken.wrong = wrong
    waits = frontend.vm(SCHED_REQUIREMENTS="ID = 0")
    there = frontend.vm(SCHED_REQUIREMENTS="ID = 1")
    with capturedLogs() as events:
        latest = frontend.periods(4)
    states = [frontend.state(vm) for vm in (here, waits, there)]
    assert states == ["RUNNING", "PENDING", "RUNNING"]
    decision, row = latest.decided.decision, latest.seen.snapshot.vm_row(here)
    assert np.isfinite(decision.allocations).all()
    assert decision.allocations[row, 0] > 0
    (market,) = decision.failed
    assert (market, decision.failed[market][:22]) == ("default", "its decision is wrong:")
    (logged,) = words(list(events))
    assert logged.startswith("Strategy tabu made a wrong decision: nothing is placed or moved in")
    assert logged.endswith(decision.failed["default"].removeprefix("its decision is wrong: "))
    mistaken.wrong = None
    assert frontend.periods(2).decided.decision.failed == {}
    assert frontend.state(waits) == "RUNNING"


def test_each_mistake_is_logged_once_while_it_lasts(frontend: Frontend, mistaken: Mistaken) -> None:
    """Another one, and the same one after a right decision, is logged again."""
    frontend.vm(SCHED_REQUIREMENTS="ID = 0")
    frontend.periods(2)
    with capturedLogs() as events:
        for wrong in ("too much", "memory", "memory", None, None, "memory"):
            mistaken.wrong = wrong
            frontend.periods(1)
    assert [text.rpartition(": ")[2] for text in words(list(events))] == [
        "the VM can't get more than its cap",
        "it can't be stored",
        "it can't be stored",
    ]


def test_two_decisions_of_a_period_are_one_mistake(frontend: Frontend, mistaken: Mistaken) -> None:
    """In mode ask, the same mistake of the free and of the restricted decision is logged once."""
    frontend.vm(SCHED_REQUIREMENTS="ID = 0")
    frontend.order(Order.MODE_ASK)
    mistaken.wrong = "memory"
    with capturedLogs() as events:
        frontend.periods(3)
    assert len(words(list(events))) == 1


def test_mistakes_are_forgotten_after_a_period_without_them() -> None:
    """Each market has its own."""
    failed = FailedMarkets()
    assert [failed.note("gold", "a", period) for period in (1, 1, 2, 3, 5, 6)] == [
        True,
        False,
        False,
        False,
        True,
        False,
    ]
    assert failed.note("default", "a", 6)
    assert failed.note("gold", "b", 6)
