"""A transaction runs again if the connection is lost between its commit and the reply."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest
import sqlalchemy as sa

from merkatd.currency.settings import MoneySettings
from merkatd.database import Database
from merkatd.database.ledger.account_store import ACCOUNTS
from merkatd.database.ledger.charge_store import ARREARS
from merkatd.database.ledger.entry_store import ENTRIES, TRANSACTIONS
from merkatd.database.ledger.reservation_store import RESERVATIONS
from merkatd.database.scheduler import bid_store, period_store, plan_store
from merkatd.database.scheduler.comparison_store import COMPARISONS
from merkatd.database.scheduler.order_store import Mode
from merkatd.database.scheduler.step_store import STEPS
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.protocol.platform_messages import SetBids
from merkatd.scheduler.base.acting_settings import ActingSettings
from merkatd.scheduler.base.settings import MarketRules
from tests.lengths import shorten
from tests.platforms.site import BOB, Site

Result = TypeVar("Result")

EVERY = shorten(4, 1)
"""Each play repeats one of this many transactions; the plays together repeat all."""

STORED = (ACCOUNTS, ENTRIES, RESERVATIONS, ARREARS, COMPARISONS)


class Unconfirmed(Database):
    """Run some transactions twice; the first commit gets no reply."""

    count = 0
    repeated = -1
    """The position of the repeated transaction, or a negative number for none."""

    async def run(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Return the result of the last run."""
        self.count += 1
        if self.count % EVERY == self.repeated:
            await super().run(work)
        return await super().run(work)


class Play(Site):
    """A platform, the VMs of two tenants, and a third tenant that can't pay for its floor."""

    database = Unconfirmed

    def __init__(self, mode: Mode) -> None:
        money = MoneySettings(supply=10_000_000, starting_credits=1.0, unpaid_periods=2)
        reserve = {"cpu": 0.01, "memory": 0.001}
        pricing = Pricing(rule=PriceRule.PAPER, whole_bids=True, reserve=reserve)
        markets = (MarketRules(pricing=pricing),)
        super().__init__(hosts=2, acting=ActingSettings(mode=mode), money=money, markets=markets)
        self.announced: list[object] = []

    def play(self, repeated: int) -> None:
        """Run periods in which VMs arrive, bid, migrate and are suspended."""
        database = self.scheduler.world.database
        assert isinstance(database, Unconfirmed)
        poor = self.user("poor")
        self.bidding = [self.vm(1.0 + number, owner=BOB) for number in range(4)]
        self.bidding.append(self.vm(0.0, owner=poor, MERKAT_BID_MEMORY=0))
        self.submitted = self.submit()
        for number in range(shorten(8, 6)):
            database.repeated = repeated
            self._record(self.period())
            if number == 1 and self.scheduler.mode is Mode.SHADOW:
                self.bench.ok("one.vm.deploy", self.bidding[1], 0, False, -1)
            if number == 2:
                self.bench.ok("one.vm.update", self.bidding[0], 'MERKAT_BID_CPU="9"', 1)
                if own := self.vms(self.submitted):
                    self.act(self.submitted, SetBids(bids={own[0]: {"cpu": 3.0}}))
            database.repeated = -1
            self._approve()
            self.clock.advance(60)
        self.transactions = database.count

    def _record(self, announcement: Any) -> None:
        """Record all that listeners and owners learn from a period."""
        verdicts = announcement.seen.verdicts
        self.announced += [
            (
                announcement.period,
                announcement.prices,
                announcement.acted.sent,
                announcement.acted.not_done,
            ),
            (verdicts.confirmed, verdicts.expired, [row.id for row in verdicts.waiting]),
            announcement.decided.decision.reasons,
        ]

    def _approve(self) -> None:
        """Approve the waiting plan as an administrator does."""

        def give(connection: sa.Connection) -> None:
            plan = plan_store.newest(connection)
            if plan is not None and plan.state is plan_store.PlanState.WAITING:
                plan_store.approve(connection, plan, frozenset(), "root", self.clock.seconds())

        self.read(give)

    def outcome(self) -> dict[str, Any]:
        """Return all results that can be observed."""
        names = ("id", "kind", "vm", "state", "planned_s", "sent_s", "ended_s", "reply")
        steps = sa.select(*(STEPS.c[name] for name in names)).order_by(STEPS.c.id)
        rows = {table.name: self._rows(sa.select(table)) for table in STORED}
        return rows | {
            "announced": self.announced,
            "transactions": self._rows(sa.select(TRANSACTIONS.c.id, TRANSACTIONS.c.kind)),
            "foreign": self.scheduler.foreign.why,
            "steps": self._rows(steps),
            "periods": self.read(lambda c: period_store.recent(c, 100)),
            "bids": self.read(bid_store.newest_bids),
            "words": self._rows(sa.select(bid_store.WORDS)),
            "platform": replace(self.platform(self.submitted), token=""),
            "doings": self.doings(self.submitted),
            "states": {vm: self.state(vm) for vm in (*self.bidding, *self.vms(self.submitted))},
        }

    def _rows(self, query: sa.Executable) -> list[str]:
        """Return the rows as stored, sorted."""
        return sorted(map(repr, self.read(lambda c: c.execute(query).all())))


def run_play(mode: Mode, repeated: int = -1) -> dict[str, Any]:
    """Return the outcome of a play."""
    site = Play(mode)
    try:
        site.play(repeated)
        site.agree()
        return site.outcome()
    finally:
        site.close()


@pytest.mark.parametrize("mode", [Mode.ON, Mode.ASK, Mode.SHADOW])
def test_a_repeated_transaction_changes_no_result(mode: Mode) -> None:
    """Steps, periods, money, platforms and bids equal those of a play without repeats."""
    clean = run_play(mode)
    for repeated in range(EVERY):
        assert run_play(mode, repeated) == clean
