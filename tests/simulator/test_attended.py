"""Real controllers of simulated applications: their news, their actions, and no event loop."""

import asyncio
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import VmState
from merkatd.policies.deadline import Funds
from merkatd.policies.patience import PatienceSettings, most_credits
from merkatd.protocol.platform_messages import (
    ActionOutcome,
    GiveUp,
    OrderStatus,
    ProgressReport,
    SetBids,
    SetLimit,
    WorkDone,
)
from simulator.market.attended_applications import (
    AttendedApplication,
    WaitsError,
    assignment_of,
    market_now,
    measured_of,
    news_of,
    run_at_once,
    vms_now,
)
from simulator.market.tenancy import Tenancy
from simulator.model.simulated_cloud import SimulatedCloud
from simulator.workloads.job_applications import Application

CLOUD = SimulatedCloud(nodes=2, cpu=200.0, memory_mib=2000.0)
PRICES = (0.05, 0.001)


class Played:
    """An application of two tasks that runs from 0 on, and its controller's requests."""

    def __init__(self, controller: str = "full_deadline", memory: Any = None) -> None:
        application = Application(
            number=7,
            submit_s=0.0,
            run_s=1000.0,
            tasks=2,
            memory_mib=100.0,
            ideal_s=1002.0,
            deadline_s=3000.0,
            budget=300.0,
        )
        self.tenancy = Tenancy(3, application, 10, application.run_s, 0)
        self.tenancy.balance = self.tenancy.initial
        self.asked: list[Any] = []
        assignment = assignment_of(self.tenancy, CLOUD, controller, 0.0, memory)
        self.attended = AttendedApplication(assignment, self.act)
        self.period = 0

    def act(self, action: Any) -> ActionOutcome:
        """Record an action, and accept it."""
        self.asked.append(action)
        return ActionOutcome(accepted=True)

    def requests(self, kind: type) -> list[Any]:
        """Return the controller's requests of one kind."""
        return [action for action in self.asked if isinstance(action, kind)]

    def run_period(self, now_s: float, part: float = 0.5, order: OrderStatus | None = None) -> None:
        """Send what a period announces if both VMs have this part of their full size."""
        self.period += 1
        size = np.array([[100.0, 100.0]] * 2)
        states = np.full(2, int(VmState.RUNNING))
        vms = vms_now(self.tenancy, np.arange(2), states, size * PRICES, size * part)
        market = market_now(CLOUD, PRICES, self.period, now_s)
        self.attended.take_measured(measured_of(self.tenancy, now_s))
        self.attended.take_news(news_of(self.tenancy, "running", vms, market, order), now_s)


def test_a_slow_application_bids_more_and_reports() -> None:
    """Its VMs have a fifth of their full size, and its deadline needs a third."""
    played = Played()
    for minute in range(1, 5):
        played.tenancy.left_s -= 12.0
        played.run_period(60.0 * minute, 0.2)
    bids = [request.bids[10]["cpu"] for request in played.requests(SetBids)]
    assert len(bids) == 4
    assert bids[-1] > 100.0 * PRICES[0]
    report = played.requests(ProgressReport)[-1]
    assert report.work_left_s == pytest.approx(952.0)
    assert report.on_track is False


def test_a_controller_decides_once_in_an_interval() -> None:
    """News of an early period come late, the newest of them only."""
    played = Played()
    for at_s in (60.0, 70.0, 90.0):
        played.run_period(at_s)
    assert len(played.requests(SetBids)) == 1
    assert played.attended.due_s == 120.0
    played.attended.take_late_news(119.0)
    assert len(played.requests(SetBids)) == 1
    played.attended.take_late_news(120.0)
    assert len(played.requests(SetBids)) == 2
    assert played.attended.due_s == float("inf")


def test_a_controller_ends_its_application_when_all_iterations_are_done() -> None:
    """And not before."""
    played = Played()
    played.tenancy.left_s = 1.0
    played.run_period(60.0)
    assert not played.requests(WorkDone)
    played.tenancy.left_s = 0.0
    played.run_period(120.0)
    assert len(played.requests(WorkDone)) == 1


def test_a_controller_gives_up_when_its_deadline_is_out_of_reach() -> None:
    """It needs 1,000 s and has 300 s: it gives up after four periods."""
    played = Played()
    for minute in range(5):
        played.run_period(2700.0 + 60.0 * minute)
        assert bool(played.requests(GiveUp)) is (minute >= 3)


def test_a_next_process_gets_the_stored_memory() -> None:
    """It continues from the bids' traces, instead of from nothing."""
    first = Played()
    first.run_period(60.0)
    assert first.attended.memory
    assert Played(memory=first.attended.memory).attended.memory == first.attended.memory


def test_a_patient_application_states_the_policys_limit() -> None:
    """It states what all of its credits buy over the time that is left."""
    played = Played("patient")
    played.run_period(60.0)
    (stated,) = played.requests(SetLimit)
    purse = Funds(credits=600.0, renewal=600.0, renewal_s=CLOUD.renewal_s)
    limit = most_credits(purse, 0.5, 0.0, 1000.0, 2940.0, 60.0, PatienceSettings())
    assert stated.limit == pytest.approx(limit)
    played.run_period(120.0, order=OrderStatus(limit=2 * stated.limit, runs=True, cost=1.0))
    assert len(played.requests(SetLimit)) == 1  # a limit does not fall while it runs
    assert not played.requests(SetBids)


def test_a_coroutine_that_waits_is_an_error() -> None:
    """Virtual time has no event loop to wait in."""

    async def waits() -> None:
        await asyncio.sleep(0.0)

    with pytest.raises(WaitsError, match=r"waits at .* waits, and virtual time"):
        run_at_once(waits())
