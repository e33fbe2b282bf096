"""A simple model of the ledger: each tenant's holdings as plain sums."""

from collections import Counter

import sqlalchemy as sa
from hypothesis.stateful import RuleBasedStateMachine, invariant

from merkatd.currency.settings import MoneySettings
from merkatd.database.base.engine import make_engine
from merkatd.database.ledger import account_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.ledger.entry_store import audit
from merkatd.database.migrations import METADATA
from merkatd.database.scheduler import period_store
from merkatd.ledger import Bill, Month, statement, supply_of, tenants

ENGINE = make_engine("sqlite://")
METADATA.create_all(ENGINE)


class BooksModel(RuleBasedStateMachine):
    """The model and its comparison with the ledger."""

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
        """By period to be charged, and account."""
        self.applications: dict[int, int] = {}
        self.acts = 0
        self.rolled = 0

    def teardown(self) -> None:
        """Close the connection without keeping anything."""
        self.connection.close()

    @property
    def money(self) -> MoneySettings:
        """Return the present money settings."""
        return MoneySettings(supply=self.supply / 1e6, starting_credits=0.0)

    def decided(self) -> int:
        """Store the decision of a new period."""
        number = period_store.begin(self.connection, self.at_s, self.at_s, hosts=1, vms=1)
        period_store.decided(self.connection, number, self.at_s, "paper")
        return number

    @invariant()
    def nothing_is_lost(self) -> None:
        """Check that the sum is zero, balances equal entries, and holdings equal the model."""
        assert audit(self.connection).sound
        holdings = {tenant.owner: tenant.holdings for tenant in tenants(self.connection)}
        assert holdings == dict(self.holdings)

    @invariant()
    def reservations_and_debts_are_right(self) -> None:
        """Check that reservations equal the periods' sums, and debtors have no free credits."""
        kept: Counter[int] = Counter()
        for amounts in self.reserved.values():
            kept.update(amounts)
        for account in account_store.every(self.connection):
            assert account.reserved == kept[account.id]
            if account.owner is not None:
                assert 0 <= account.reserved <= account.balance
                assert not (self.debts[account.owner] and account.free)
        assert {
            tenant.owner: tenant.debt for tenant in tenants(self.connection) if tenant.debt
        } == {owner: debt for owner, debt in self.debts.items() if debt}

    @invariant()
    def statements_explain_everything(self) -> None:
        """Check that consecutive monthly statements lead from zero to the present holdings."""
        for owner, held in self.holdings.items():
            balance, charged, month = 0, 0, Month(1970, 1)
            while month.begin_s <= self.at_s:
                stated = statement(self.connection, owner, month)
                assert (stated.opening, stated.difference) == (balance, 0)
                balance, charged, month = stated.closing, charged + stated.charged, month.next
            assert (balance, charged) == (held, self.charged[owner])

    @property
    def treasury(self) -> int:
        """Return the credits that no tenant holds."""
        return supply_of(self.connection) - self.holdings.total()

    def own(self, owner: int) -> int:
        """Return the credits that a tenant can move, outside of its applications."""
        account = account_store.find(self.connection, AccountKind.TENANT, owner)
        assert account is not None
        return account.free

    def owner(self, account: int) -> int:
        """Return the owner of an account."""
        owner = account_store.get(self.connection, [account])[account].owner
        assert owner is not None
        return owner

    def free(self, account: int) -> int:
        """Return the credits that can be moved out of an account."""
        return account_store.get(self.connection, [account])[account].free

    def collects(self) -> None:
        """Pay debts from all movable credits of their owners: in the model from the total."""
        for owner, debt in self.debts.items():
            kept = sum(
                amounts[account.id]
                for account in account_store.of_owner(self.connection, owner)
                for amounts in self.reserved.values()
            )
            paid = min(debt, self.holdings[owner] - kept)
            self.holdings[owner] -= paid
            self.debts[owner] -= paid
