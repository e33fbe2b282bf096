"""Patience with replenishment: daemon and controller take turns at constant prices."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controllers.applications.deadline_controllers import TEMPER, Patient
from merkatd.platforms.lifecycle.start_conditions import (
    MarketOffer,
    StartAnswer,
    Terms,
    judge_start,
    limit_of,
)
from merkatd.policies.deadline import Funds
from merkatd.policies.patience import ClaimBook, claim_while_running
from merkatd.policies.suspension import REST
from merkatd.protocol.bus_messages import Measured, Remember, Stored
from merkatd.protocol.platform_messages import (
    ActionOutcome,
    Claim,
    GiveUp,
    SetBids,
    SuspendPlatform,
    VmNow,
)
from tests.bus.rig import assignment, news
from tests.controllers.coroutines import finish
from tests.lengths import shorten

INTERVAL_S = 60.0
HOUR = 60
"""The number of periods in an hour."""
UNITS, CAPACITY = 200.0, 400.0
FULL = {"cpu": UNITS, "memory": 512.0}
BEGIN_S = 1_000.0


@dataclass
class Site:
    """One patient platform beside constant claims and a constant price."""

    credits: float
    """The present and the greatest balance;"""
    renewal: float
    """the credits added every hour;"""
    left: int
    """the periods to its deadline,"""
    work: int
    """and those that it needs at full speed."""
    others: Claim
    price: float

    state: str = "suspended"
    since: int = -1_000
    done: int = 0
    claim: Claim = field(default_factory=lambda: Claim(price=0.0, units=UNITS))
    changes: list[tuple[int, str, int]] = field(default_factory=list)
    """The periods of suspensions and resumptions, with the spare periods at each."""

    def __post_init__(self) -> None:
        self.most, self.period = self.credits, 0
        given = assignment(controller="patient")
        (terms,) = given.clusters
        self.controller = Patient(
            replace(
                given,
                clusters=(replace(terms, floor={}, ceiling=FULL),),
                parameters={"steps": self.work},
                deadline_s=self._at_s(self.left),
                ideal_s=self.work * INTERVAL_S,
                replenishment=self.renewal,
                replenishment_s=HOUR * INTERVAL_S,
            ),
            self,
        )
        finish(self.controller.on_start())

    @staticmethod
    def _at_s(period: int) -> float:
        return BEGIN_S + INTERVAL_S * period

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Answer as the daemon does."""
        assert not action_id
        if isinstance(body, Remember):
            return Stored()
        if isinstance(body, GiveUp):
            self.state = "over"
        if isinstance(body, Claim):
            assert 0 <= body.price * body.units <= self.credits * (1 + 1e-9)
            self.claim = body
        if isinstance(body, SuspendPlatform):
            self._change("suspended")
        return ActionOutcome(accepted=True)

    def _change(self, state: str) -> None:
        spare = self.left - self.period - (self.work - self.done)
        self.state, self.since = state, self.period
        self.changes.append((self.period, state, spare))

    def _resume(self) -> None:
        """Resume as the daemon does if the conditions hold."""
        purse = Funds(credits=self.credits, renewal=self.renewal, renewal_s=HOUR * INTERVAL_S)
        terms = Terms(
            deadline_s=self._at_s(self.left),
            ideal_s=(self.work - self.done) * INTERVAL_S,
            price_ceiling={},
            full=FULL,
            purse=purse,
            patient=True,
            suspended_s=self._at_s(self.since),
        )
        offer = MarketOffer(
            now_s=self._at_s(self.period),
            interval_s=INTERVAL_S,
            prices={"cpu": self.price, "memory": 0.0},
            capacity={"cpu": CAPACITY, "memory": 1e6},
            book=ClaimBook(CAPACITY, [(self.others.price, self.others.units)]),
        )
        if judge_start(terms, offer).answer is StartAnswer.START:
            price = claim_while_running(limit_of(terms, offer), purse, UNITS, TEMPER)
            self.claim = Claim(price=price, units=UNITS)
            self._change("resuming")

    def pass_a_period(self) -> None:
        """Resume or run, pay, replenish, and report to the controller."""
        self.period += 1
        if self.period % HOUR == 0:
            self.credits = min(self.credits + self.renewal, self.most)
        if self.state == "suspended":
            self._resume()
        elif self.state == "resuming":
            self.state = "running"
        if self.state == "suspended":
            return
        has = UNITS if self.state == "running" else 0.0
        price = min(self.price, self.claim.price)
        self.done += has > 0
        self.credits = max(self.credits - price * has, 0.0)
        vm = VmNow(
            vm=101,
            cluster="workers",
            state="running",
            bid={"cpu": price * has, "memory": 0.0},
            allocation={"cpu": has, "memory": 512.0},
        )
        latest = news(
            period=self.period,
            deadline_s=self._at_s(self.left),
            balance=self.credits,
            replenishment=self.renewal,
            vms=(vm,),
            state=self.state,
            claim=self.claim,
            capacity={"cpu": CAPACITY, "memory": 1e6},
            prices={"cpu": self.price, "memory": 0.0},
        )
        latest = replace(latest, market=replace(latest.market, claims=(self.others, self.claim)))
        seen = Measured(cluster="workers", at_s=latest.at_s, values={"done": float(self.done)})
        finish(self.controller.take(seen))
        finish(self.controller.take(latest))

    def play(self) -> None:
        """Run until the deadline, the end of the work, or a suspension without end."""
        while self.period < self.left and self.done < self.work and self.state != "over":
            self.pass_a_period()


@settings(deadline=None, max_examples=shorten(60, 12))
@given(
    st.floats(0.1, 200.0),
    st.floats(0.0, 1.5),
    st.integers(60, 400),
    st.floats(0.1, 0.95),
    st.floats(0.1, 3.0),
    st.floats(0.0, 380.0),
    st.floats(0.05, 2.0),
)
@example(60.0, 1.0, 240, 0.75, 1.2, 250.0, 6.0)
@example(30.0, 1.0, 480, 0.75, 1.0, 250.0, 24.0)
@example(60.0, 1.0, 300, 0.6, 0.6, 250.0, 6.0)
def test_constant_prices_cause_one_suspension_and_resumption_in_a_rest(
    credits_: float,
    renewed: float,
    left: int,
    works: float,
    claimed: float,
    others: float,
    dear: float,
) -> None:
    """Only work with less spare time than a rest is resumed sooner, and then continues."""
    work = max(int(works * left), 1)
    fair = credits_ / (UNITS * work)
    site = Site(
        credits=credits_,
        renewal=renewed * credits_,
        left=left,
        work=work,
        others=Claim(price=claimed * fair, units=others),
        price=dear * fair,
    )
    site.play()
    for (before, was, _), (later, state, spare) in pairwise(site.changes):
        assert state != was
        last = state == "resuming" and spare <= REST
        assert later - before >= REST or last, site.changes
    lasts = [
        row
        for row, (_, state, spare) in enumerate(site.changes)
        if state == "resuming" and spare <= REST
    ]
    assert not lasts or lasts[0] == len(site.changes) - 1, site.changes


def test_a_platform_needs_the_cost_of_a_rest_to_be_resumed() -> None:
    """Later replenishments can't be spent yet, whatever their size."""
    others = Claim(price=0.001, units=250.0)
    site = Site(credits=60.0, renewal=60.0, left=240, work=120, others=others, price=0.001)
    site.credits = 1e-3 * UNITS
    for _ in range(HOUR - 1):
        site.pass_a_period()
    assert not site.changes
    site.pass_a_period()
    assert [state for _, state, _ in site.changes] == ["resuming"]


@pytest.mark.parametrize("renewal", [0.0, 60.0])
def test_a_platform_with_all_its_credits_is_resumed_at_once(renewal: float) -> None:
    """Replenishment makes it no poorer."""
    others = Claim(price=0.002, units=150.0)
    site = Site(credits=60.0, renewal=renewal, left=300, work=150, others=others, price=0.0015)
    site.play()
    assert site.changes[0] == (1, "resuming", 149)
    assert site.done == site.work


@pytest.mark.parametrize("others", [0.0, 2 * CAPACITY])
def test_a_platform_that_uses_no_cpu_runs(others: float) -> None:
    """It claims no CPU and needs no room."""
    asked: list[Any] = []

    class Daemon:
        """Accept every request."""

        async def ask(self, body: Any, action_id: str = "") -> Any:
            """Answer as the daemon does."""
            assert not action_id
            asked.append(body)
            return Stored() if isinstance(body, Remember) else ActionOutcome(accepted=True)

    given = assignment(controller="patient")
    (terms,) = given.clusters
    terms = replace(terms, ceiling={"cpu": 0.0, "memory": 512.0})
    given = replace(given, clusters=(terms,), parameters={"steps": 5}, deadline_s=1e6, ideal_s=60.0)
    controller = Patient(given, Daemon())
    for period in range(1, 20):
        latest = news(period=period, deadline_s=1e6, claim=Claim(price=0.0, units=0.0))
        claims = (Claim(price=1.0, units=others),)
        finish(controller.take(replace(latest, market=replace(latest.market, claims=claims))))
    bids = [body.bids[101] for body in asked if isinstance(body, SetBids)]
    assert len(bids) == 19
    assert all(bid["memory"] > bid["cpu"] for bid in bids)
    assert not any(isinstance(body, SuspendPlatform) for body in asked)
