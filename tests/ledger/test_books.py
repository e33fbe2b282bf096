"""All ledger operations, in any order and repeated, compared with a simple model."""

from collections import Counter

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from merkatd.database.ledger import account_store
from merkatd.database.scheduler import period_store
from merkatd.ledger import (
    Bill,
    LedgerError,
    SettledBill,
    end_application,
    fold_details,
    forget,
    grant,
    keep_supply,
    open_application,
    open_tenant,
    release,
    renew,
    replenish,
    reserve,
    set_budget,
    set_weight,
    settle_bill,
    supply_of,
    tenants,
    void_period,
)
from tests.ledger.books_model import BooksModel
from tests.lengths import shorten

OWNERS = st.integers(0, 3)
AMOUNTS = st.integers(0, 3_000)


class Books(BooksModel):
    """All operations of the ledger; after each, ledger and model must agree."""

    @initialize()
    def begin(self) -> None:
        """Issue the supply."""
        keep_supply(self.connection, self.money, self.at_s)

    @rule(hours=st.integers(1, 60))
    def wait(self, hours: int) -> None:
        """Let time pass."""
        self.at_s += hours * 3600.0

    @rule(owner=OWNERS)
    def meets(self, owner: int) -> None:
        """Add a tenant, perhaps a second time."""
        open_tenant(self.connection, owner, self.money, self.at_s)
        self.holdings[owner] += 0

    @rule(owner=OWNERS, weight=st.sampled_from([None, 0.0, 0.5, 1.0, 3.0]))
    def weighs(self, owner: int, weight: float | None) -> None:
        """Set a weight as an administrator; no credits move."""
        if owner in self.holdings:
            set_weight(self.connection, owner, weight, "test", self.at_s)

    @rule(owner=OWNERS, amount=st.integers(-2_000, 2_000), again=st.booleans())
    def grants(self, owner: int, amount: int, *, again: bool) -> None:
        """Grant or withdraw credits as an administrator; a repeated request acts once."""
        if owner not in self.holdings:
            return
        self.acts += 1
        for _ in range(1 + again):
            try:
                grant(self.connection, owner, amount, str(self.acts), "test", self.at_s)
            except LedgerError:
                own = self.own(owner)
                assert amount == 0 or amount > self.treasury or -amount > own
                return
        self.holdings[owner] += amount
        self.collects()

    @rule()
    def renews(self) -> None:
        """Pay every tenant up to its entitlement, and not beyond."""
        before = {tenant.owner: tenant for tenant in tenants(self.connection)}
        paid = renew(self.connection, "test", self.at_s)
        for tenant in tenants(self.connection):
            old = before[tenant.owner]
            income = tenant.holdings - old.holdings + old.debt - tenant.debt
            assert 0 <= income <= max(0, tenant.entitlement - old.holdings)
            self.holdings[tenant.owner] += income
            paid -= income
        assert paid == 0
        self.collects()

    @rule(supply=st.integers(0, 20_000))
    def configures(self, supply: int) -> None:
        """Change the supply as far as the treasury allows."""
        wanted = max(supply, supply_of(self.connection) - self.treasury)
        self.supply = supply
        keep_supply(self.connection, self.money, self.at_s)
        assert supply_of(self.connection) == wanted

    @rule(owner=OWNERS, name=st.sampled_from("ab"), initial=AMOUNTS, refill=AMOUNTS)
    def opens(self, owner: int, name: str, initial: int, refill: int) -> None:
        """Open an application whose budget comes from its tenant."""
        if owner not in self.holdings:
            return
        savepoint = self.connection.begin_nested()
        try:
            budget = open_application(self.connection, owner, name, initial, refill, self.at_s)
        except LedgerError:
            savepoint.rollback()
            assert initial > self.own(owner)
            return
        self.applications[budget.application] = owner

    @rule(data=st.data(), amount=AMOUNTS)
    def changes(self, data: st.DataObject, amount: int) -> None:
        """Change a budget, or reject the change as a whole."""
        if self.applications:
            self.acts += 1
            application = data.draw(st.sampled_from(sorted(self.applications)))
            try:
                done = set_budget(
                    self.connection, application, amount, None, str(self.acts), "test", self.at_s
                )
            except LedgerError:
                return
            assert (done.balance, done.initial) == (amount, amount)

    @rule(data=st.data())
    def ends(self, data: st.DataObject) -> None:
        """End an application; its credits return to its tenant."""
        if self.applications:
            application = data.draw(st.sampled_from(sorted(self.applications)))
            owner = self.applications[application]
            before = self.own(owner)
            free = self.free(application)
            back = end_application(self.connection, application, self.at_s)
            assert back in {0, free}
            assert self.own(owner) == before + back
            assert end_application(self.connection, application, self.at_s) == 0

    @rule()
    def replenishes(self) -> None:
        """Refill the budgets; no tenant's total holdings change."""
        replenish(self.connection, 3600.0, self.at_s)

    @rule(data=st.data())
    def reserves(self, data: st.DataObject) -> None:
        """Decide a period and reserve its highest cost, as far as credits suffice."""
        payers = [
            account for account in account_store.every(self.connection) if account.owner is not None
        ]
        if not payers:
            return
        number = self.decided()
        wanted = data.draw(st.dictionaries(st.sampled_from([p.id for p in payers]), AMOUNTS))
        before = {payer.id: payer.free for payer in payers}
        reserve(self.connection, number, wanted, self.at_s)
        self.reserved[number] = Counter(
            {account: min(amount, before[account]) for account, amount in wanted.items()}
        )

    @rule(data=st.data())
    def releases(self, data: st.DataObject) -> None:
        """Release the reservation of a period that will not be charged."""
        if self.reserved:
            number = data.draw(st.sampled_from(sorted(self.reserved)))
            release(self.connection, number, self.at_s)
            release(self.connection, number, self.at_s)
            del self.reserved[number]
            self.collects()

    @rule(data=st.data())
    def charges(self, data: st.DataObject) -> None:
        """Charge a period to some accounts; a repeated charge has no effect."""
        payers = {
            account.id: account
            for account in account_store.every(self.connection)
            if account.owner is not None
        }
        if not payers:
            return
        late = bool(data.draw(st.booleans()))
        if self.reserved and late:
            number = data.draw(st.sampled_from(sorted(self.reserved)))
        else:
            number = self.decided()
        freed = self.reserved.pop(number, Counter())
        who = data.draw(st.lists(st.sampled_from(sorted(payers)), max_size=6))
        owed = data.draw(
            st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=len(who), max_size=len(who))
        )
        bill = Bill(
            period=number,
            vm=np.arange(len(who)),
            account=np.array(who, dtype=np.int64),
            owed=np.array(owed, dtype=np.int64).reshape(len(who), 2),
            allocation=np.ones((len(who), 2)),
            seconds=np.full(len(who), 60.0),
            names=[f"vm-{vm}" for vm in range(len(who))],
        )
        result = settle_bill(self.connection, bill, self.at_s)
        period_store.charged(self.connection, number, self.at_s)
        if number <= self.rolled:
            assert result == SettledBill(0, 0), "charges were rolled up before the charge"
            self.collects()
            return
        expected: Counter[int] = Counter()
        missing: Counter[int] = Counter()
        for account, due in bill.by_account().items():
            expected[account] = min(due, payers[account].free + freed[account])
            missing[account] = due - expected[account]
        assert (result.taken, result.missing) == (expected.total(), missing.total())
        for account, amount in expected.items():
            owner = payers[account].owner
            assert owner is not None
            self.holdings[owner] -= amount
            self.charged[owner] += amount
            self.debts[owner] += missing[account]
        self.bills[number], self.taken[number], self.missing[number] = bill, expected, missing
        assert settle_bill(self.connection, bill, self.at_s) == SettledBill(0, 0)
        self.collects()

    @rule(data=st.data())
    def voids(self, data: st.DataObject) -> None:
        """Refund a period once, unless it is rolled up or the treasury is short."""
        if not self.taken:
            return
        number = data.draw(st.sampled_from(sorted(self.taken)))
        missing: Counter[int] = Counter()
        for account, amount in self.missing[number].items():
            missing[self.owner(account)] += amount
        back = {owner: max(0, amount - self.debts[owner]) for owner, amount in missing.items()}
        owed = self.taken[number].total() + sum(back.values())
        savepoint = self.connection.begin_nested()
        try:
            amount = void_period(self.connection, number, "test", "test", self.at_s)
        except LedgerError:
            savepoint.rollback()
            assert number <= self.rolled or owed > self.treasury
            return
        assert amount == (0 if number in self.voided else owed)
        if number not in self.voided:
            for account, taken in self.taken[number].items():
                self.holdings[self.owner(account)] += taken
            for owner, some in missing.items():
                self.holdings[owner] += back[owner]
                self.debts[owner] -= some - back[owner]
        self.voided.add(number)
        self.collects()

    @rule(keep=st.integers(0, 3))
    def tidies(self, keep: int) -> None:
        """Roll up details and old charges into days; no holdings change."""
        while fold_details(self.connection, 2):
            pass
        newest = period_store.newest(self.connection)
        if newest is None:
            return
        while forget(self.connection, newest.number - keep, self.at_s, 2):
            pass
        self.rolled = max(self.rolled, newest.number - keep - 1)
        for number, bill in self.bills.items():
            if number <= self.rolled:
                assert settle_bill(self.connection, bill, self.at_s).taken == 0


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=shorten(25, 12), stateful_step_count=25, deadline=None)
