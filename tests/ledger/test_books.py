"""All operations on the books, in any order and repeated, against a simple model of them."""

from collections import Counter
from typing import Any

import numpy as np
import sqlalchemy as sa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from merkatd.currency.settings import MoneySettings
from merkatd.database.base.engine import make_engine
from merkatd.database.ledger import account_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.ledger.entry_store import audit
from merkatd.database.migrations import METADATA
from merkatd.database.scheduler import period_store
from merkatd.ledger import (
    Bill,
    LedgerError,
    Month,
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
    statement,
    supply_of,
    tenants,
    void_period,
)

DAY_S = 86_400.0
OWNERS = st.integers(0, 3)
AMOUNTS = st.integers(0, 3_000)
ENGINE = make_engine("sqlite://")
METADATA.create_all(ENGINE)

Operation = Any


class Books(RuleBasedStateMachine):
    """The model: who holds what, kept by plain sums; the ledger must say the same."""

    def __init__(self) -> None:
        super().__init__()
        self.connection: sa.Connection = ENGINE.connect()
        self.at_s = 0.0
        self.supply = 10_000
        self.holdings: Counter[int] = Counter()
        self.charged: Counter[int] = Counter()
        self.bills: dict[int, Bill] = {}
        self.taken: dict[int, Counter[int]] = {}
        self.missing: dict[int, Counter[int]] = {}
        self.voided: set[int] = set()
        self.debts: Counter[int] = Counter()
        self.reserved: dict[int, Counter[int]] = {}
        """By period that is still to be charged, and account."""
        self.applications: dict[int, int] = {}
        self.acts = 0
        self.rolled = 0

    def teardown(self) -> None:
        """Nothing of it is kept."""
        self.connection.close()

    @property
    def money(self) -> MoneySettings:
        """What is configured at present."""
        return MoneySettings(supply=self.supply / 1e6, starting_credits=0.0)

    @initialize()
    def begin(self) -> None:
        """The supply is issued."""
        keep_supply(self.connection, self.money, self.at_s)

    @rule(hours=st.integers(1, 60))
    def wait(self, hours: int) -> None:
        """Time passes."""
        self.at_s += hours * 3600.0

    @rule(owner=OWNERS)
    def meets(self, owner: int) -> None:
        """A tenant is met, maybe again."""
        open_tenant(self.connection, owner, self.money, self.at_s)
        self.holdings[owner] += 0

    @rule(owner=OWNERS, weight=st.sampled_from([None, 0.0, 0.5, 1.0, 3.0]))
    def weighs(self, owner: int, weight: float | None) -> None:
        """An administrator sets a weight; no credits move."""
        if owner in self.holdings:
            set_weight(self.connection, owner, weight, "test", self.at_s)

    @rule(owner=OWNERS, amount=st.integers(-2_000, 2_000), again=st.booleans())
    def grants(self, owner: int, amount: int, *, again: bool) -> None:
        """An administrator gives or takes; asked for twice it is done once."""
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
        """Everybody is topped up, and nobody beyond its part."""
        before = {one.owner: one for one in tenants(self.connection)}
        paid = renew(self.connection, "test", self.at_s)
        for one in tenants(self.connection):
            old = before[one.owner]
            income = one.holdings - old.holdings + old.debt - one.debt
            assert 0 <= income <= max(0, one.entitlement - old.holdings)
            self.holdings[one.owner] += income
            paid -= income
        assert paid == 0
        self.collects()

    @rule(supply=st.integers(0, 20_000))
    def configures(self, supply: int) -> None:
        """The supply is changed, as far as the treasury goes."""
        wanted = max(supply, supply_of(self.connection) - self.treasury)
        self.supply = supply
        keep_supply(self.connection, self.money, self.at_s)
        assert supply_of(self.connection) == wanted

    @rule(owner=OWNERS, name=st.sampled_from("ab"), initial=AMOUNTS, refill=AMOUNTS)
    def opens(self, owner: int, name: str, initial: int, refill: int) -> None:
        """An application is opened; its budget comes from its tenant."""
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
        """A budget is changed, or refused whole."""
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
        """An application is over: what it held is its tenant's again."""
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
        """Budgets are refilled; nobody's holdings change by that."""
        replenish(self.connection, 3600.0, self.at_s)

    def decided(self) -> int:
        """A new period of which the decision is stored."""
        number = period_store.begin(self.connection, self.at_s, self.at_s, hosts=1, vms=1)
        period_store.decided(self.connection, number, self.at_s, "paper", {})
        return number

    @rule(data=st.data())
    def reserves(self, data: st.DataObject) -> None:
        """A period is decided; what it can cost is reserved, as far as there is so much."""
        payers = [one for one in account_store.every(self.connection) if one.owner is not None]
        if not payers:
            return
        number = self.decided()
        wanted = data.draw(st.dictionaries(st.sampled_from([p.id for p in payers]), AMOUNTS))
        before = {one.id: one.free for one in payers}
        reserve(self.connection, number, wanted, self.at_s)
        self.reserved[number] = Counter(
            {account: min(amount, before[account]) for account, amount in wanted.items()}
        )

    @rule(data=st.data())
    def releases(self, data: st.DataObject) -> None:
        """A decided period will not be charged after all."""
        if self.reserved:
            number = data.draw(st.sampled_from(sorted(self.reserved)))
            release(self.connection, number, self.at_s)
            release(self.connection, number, self.at_s)
            del self.reserved[number]
            self.collects()

    @rule(data=st.data())
    def charges(self, data: st.DataObject) -> None:
        """A period is charged to some accounts, twice through as once."""
        payers = {
            one.id: one for one in account_store.every(self.connection) if one.owner is not None
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
            assert result == SettledBill(0, 0), "its charges were rolled up before it was charged"
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
        """A period is given back, once, unless it is too long ago or the treasury is short."""
        if not self.taken:
            return
        number = data.draw(st.sampled_from(sorted(self.taken)))
        missing: Counter[int] = Counter()
        for account, amount in self.missing[number].items():
            missing[self.owner(account)] += amount
        back = {owner: max(0, amount - self.debts[owner]) for owner, amount in missing.items()}
        whole = self.taken[number].total() + sum(back.values())
        savepoint = self.connection.begin_nested()
        try:
            amount = void_period(self.connection, number, "test", "test", self.at_s)
        except LedgerError:
            savepoint.rollback()
            assert number <= self.rolled or whole > self.treasury
            return
        assert amount == (0 if number in self.voided else whole)
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
        """Details become days, and so do old charges: nothing that anybody holds changes."""
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

    @invariant()
    def nothing_is_lost(self) -> None:
        """The sum is zero, balances are their entries, and everybody holds what the model says."""
        assert audit(self.connection).sound
        found = {one.owner: one.holdings for one in tenants(self.connection)}
        assert found == dict(self.holdings)

    @invariant()
    def reservations_and_debts_are_right(self) -> None:
        """What is reserved is the sum of what periods reserve; a debtor has nothing to move."""
        kept: Counter[int] = Counter()
        for amounts in self.reserved.values():
            kept.update(amounts)
        for one in account_store.every(self.connection):
            assert one.reserved == kept[one.id]
            if one.owner is not None:
                assert 0 <= one.reserved <= one.balance
                assert not (self.debts[one.owner] and one.free)
        assert {one.owner: one.debt for one in tenants(self.connection) if one.debt} == {
            owner: debt for owner, debt in self.debts.items() if debt
        }

    @invariant()
    def statements_explain_everything(self) -> None:
        """The months up to now, one behind the other, from nothing to what is held."""
        for owner, held in self.holdings.items():
            balance, charged, month = 0, 0, Month(1970, 1)
            while month.begin_s <= self.at_s:
                found = statement(self.connection, owner, month)
                assert (found.opening, found.difference) == (balance, 0)
                balance, charged, month = found.closing, charged + found.charged, month.next
            assert (balance, charged) == (held, self.charged[owner])

    @property
    def treasury(self) -> int:
        """What nobody holds."""
        return supply_of(self.connection) - self.holdings.total()

    def own(self, owner: int) -> int:
        """What a tenant can move of what it holds outside its applications."""
        account = account_store.find(self.connection, AccountKind.TENANT, owner)
        assert account is not None
        return account.free

    def owner(self, account: int) -> int:
        """Whose account it is."""
        owner = account_store.get(self.connection, [account])[account].owner
        assert owner is not None
        return owner

    def free(self, account: int) -> int:
        """What can be moved out of an account."""
        return account_store.get(self.connection, [account])[account].free

    def collects(self) -> None:
        """Debts are paid from all that their owners can move: in the model from the whole."""
        for owner, debt in self.debts.items():
            kept = sum(
                amounts[one.id]
                for one in account_store.of_owner(self.connection, owner)
                for amounts in self.reserved.values()
            )
            paid = min(debt, self.holdings[owner] - kept)
            self.holdings[owner] -= paid
            self.debts[owner] -= paid


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
