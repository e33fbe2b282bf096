"""Tenants with their accounts: identity, holdings, weights and grants."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from merkatd.base.quantities import exact_credits_text
from merkatd.currency import MICRO, MOST_CREDITS, micro
from merkatd.currency.credits import part_rounding_down
from merkatd.currency.income import RenewalPart as Claim
from merkatd.currency.income import entitlements
from merkatd.currency.settings import MoneySettings
from merkatd.database.ledger import account_store, entry_store, note_store
from merkatd.database.ledger import tenant_store as stored
from merkatd.database.ledger.account_store import AccountKind, AccountRow
from merkatd.database.ledger.entry_store import Posting, TransactionKind
from merkatd.database.ledger.note_store import Note, NoteKind
from merkatd.database.ledger.tenant_store import TenantRow
from merkatd.ledger import debts
from merkatd.ledger.errors import LedgerError, NotFoundError, balance_text

FIRST_ISSUE = "issue/first"
"""The reference of the first issue of credits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantAccount:
    """A tenant and its holdings; amounts are micro-credits."""

    owner: int
    """The user id in OpenNebula."""
    name: str | None
    group: int | None
    weight: float
    own_weight: float | None
    """The tenant's own weight; None if the group's weight or the default applies."""
    entitlement: int
    """The holdings after a full renewal."""
    account: int
    balance: int
    in_applications: int
    """The sum of its applications' balances."""
    reserved: int = 0
    """The part of its own account that is reserved for charges."""
    debt: int = 0
    """The unpaid charges of earlier periods."""
    retired_s: float | None = None
    """The time of retirement, after OpenNebula removed the user."""

    @property
    def holdings(self) -> int:
        """The balances of its account and its applications together."""
        return self.balance + self.in_applications


def open_tenant(
    connection: sa.Connection,
    owner: int,
    money: MoneySettings,
    at_s: float,
    *,
    name: str | None = None,
    group: int | None = None,
) -> AccountRow:
    """Return the tenant's account; open it with the starting credits if it is new."""
    account_store.lock_books(connection)
    known = account_store.find(connection, AccountKind.TENANT, owner)
    stored.ensure_tenants(connection, owner, at_s, name, group)
    if known is not None:
        return known
    account = account_store.ensure(connection, AccountKind.TENANT, owner)
    return _begin(connection, account, money, str(owner), at_s)


def _begin(
    connection: sa.Connection,
    account: AccountRow,
    money: MoneySettings,
    reference: str,
    at_s: float,
) -> AccountRow:
    """Give the account the starting credits of a tenant, and return it."""
    treasury = account_store.treasury(connection)
    start = money.start_of(weight_of(connection, account.owner or 0))
    if money.supply <= 0:
        # The total of all credits stays within a database integer, however many tenants there are.
        more = min(start, micro(MOST_CREDITS) - supply_of(connection))
        if more > 0:
            issue(connection, more, f"issue/tenant/{reference}", at_s)
    elif not supply_of(connection):
        issue(connection, micro(money.supply), FIRST_ISSUE, at_s)
    start = min(start, _locked(connection, treasury.id).balance)
    moves = {treasury.id: -start, account.id: start}
    entry_store.post(
        connection, [Posting(TransactionKind.INCOME, f"start/{reference}", moves)], at_s
    )
    return _locked(connection, account.id)


def weight_of(connection: sa.Connection, owner: int) -> float:
    """Return the weight of a user, known or not."""
    known = stored.get(connection, owner)
    return stored.DEFAULT_WEIGHT if known is None else known.weight


def issue(connection: sa.Connection, supply: int, reference: str, at_s: float) -> None:
    """Issue micro-credits into the treasury, once for each reference."""
    issuance, treasury = account_store.issuance(connection), account_store.treasury(connection)
    moves = {issuance.id: -supply, treasury.id: supply}
    entry_store.post(connection, [Posting(TransactionKind.ISSUE, reference, moves)], at_s)


def tenants(connection: sa.Connection) -> tuple[TenantAccount, ...]:
    """Return all tenants, by id."""
    return standings(connection, account_store.holding(connection))


def standings(connection: sa.Connection, every: Iterable[AccountRow]) -> tuple[TenantAccount, ...]:
    """Return all tenants, by id; `every` must contain all accounts with credits."""
    known = stored.every(connection)
    account: dict[int, AccountRow] = {}
    inside: Counter[int] = Counter()
    issued = 0
    for row in every:
        if row.kind is AccountKind.ISSUANCE:
            issued = -row.balance
        elif row.kind is AccountKind.TENANT and row.owner is not None:
            account[row.owner] = row
        elif row.owner is not None:
            inside[row.owner] += row.balance
    claims = [
        Claim(row.owner, row.weight, account[row.owner].balance + inside[row.owner])
        for row in known
        if row.owner in account and row.retired_s is None
    ]
    entitled = entitlements(issued, claims)
    return tuple(
        _tenant_account(row, account[row.owner], inside[row.owner], entitled.get(row.owner, 0))
        for row in known
        if row.owner in account
    )


def _tenant_account(
    row: TenantRow, account: AccountRow, in_applications: int, entitlement: int
) -> TenantAccount:
    return TenantAccount(
        owner=row.owner,
        name=row.name,
        group=row.group,
        weight=row.weight,
        own_weight=row.own_weight,
        entitlement=entitlement,
        account=account.id,
        balance=account.balance,
        in_applications=in_applications,
        reserved=account.reserved,
        debt=account.debt,
        retired_s=row.retired_s,
    )


def tenant(connection: sa.Connection, owner: int) -> TenantAccount:
    """Return one tenant. Raise NotFoundError if it is unknown.

    It reads no other tenants: each tenant may ask this often, of a cloud with thousands of them.
    """
    row = stored.get(connection, owner)
    accounts = account_store.of_owner(connection, owner)
    own = next((each for each in accounts if each.kind is AccountKind.TENANT), None)
    if row is None or own is None:
        raise NotFoundError(
            f"user {owner} is not a tenant yet: a user becomes one with its first VM"
        )
    entitled = 0
    if row.retired_s is None:
        weights = stored.active_weights(connection)
        entitled = part_rounding_down(supply_of(connection), row.weight, weights)
    inside = sum(each.balance for each in accounts if each is not own)
    return _tenant_account(row, own, inside, entitled)


def present(connection: sa.Connection, owner: int) -> TenantAccount:
    """Return one tenant. Raise LedgerError if it is retired."""
    account = tenant(connection, owner)
    if account.retired_s is not None:
        raise LedgerError(f"tenant {owner} is retired: OpenNebula has removed its user")
    return account


def names(connection: sa.Connection, *, retired: bool = True) -> dict[int, str]:
    """Return all known names by id, with or without those of retired tenants."""
    return stored.names(connection, retired=retired)


def name_of(connection: sa.Connection, owner: int) -> str | None:
    """Return the name of a tenant, None if it is not known."""
    return stored.name_of(connection, owner)


def supply_of(connection: sa.Connection) -> int:
    """Return the total of all micro-credits, which is the debt of the issuance account."""
    return -account_store.issuance(connection).balance


def set_weight(
    connection: sa.Connection, owner: int, weight: float | None, who: str, at_s: float
) -> TenantAccount:
    """Give a tenant its own weight, from the next renewal on."""
    account_store.lock_books(connection)
    before = present(connection, owner)
    try:
        stored.set_weight(connection, owner, weight)
    except ValueError as error:
        raise LedgerError(str(error)) from None
    after = tenant(connection, owner)
    text = f"weight {before.weight:g} -> {after.weight:g}"
    note_store.add(
        connection, Note(at_s=at_s, kind=NoteKind.WEIGHT, who=who, owner=owner, text=text)
    )
    return after


def set_group_weight(
    connection: sa.Connection, group: int, weight: float | None, who: str, at_s: float
) -> None:
    """Set the weight of a group's tenants that have none of their own."""
    account_store.lock_books(connection)
    before = stored.groups(connection).get(group, stored.DEFAULT_WEIGHT)
    try:
        stored.set_group_weight(connection, group, weight)
    except ValueError as error:
        raise LedgerError(str(error)) from None
    after = stored.DEFAULT_WEIGHT if weight is None else weight
    text = f"group {group}: weight {before:g} -> {after:g}"
    note_store.add(connection, Note(at_s=at_s, kind=NoteKind.WEIGHT, who=who, text=text))


def grant(
    connection: sa.Connection, owner: int, amount: int, reference: str, who: str, at_s: float
) -> TenantAccount:
    """Move micro-credits from the treasury to a tenant, or back if the amount is negative.

    The caller chooses `reference` for this one grant: a second call with it changes nothing.
    """
    account_store.lock_books(connection)
    account = present(connection, owner).account
    if amount == 0:
        raise LedgerError("the amount of a grant must not be 0")
    full = f"grant/{reference}"
    if entry_store.posted(connection, [full]):
        return tenant(connection, owner)
    treasury = account_store.treasury(connection).id
    held = account_store.lock(connection, [treasury, account])
    source = held[treasury] if amount > 0 else held[account]
    if abs(amount) > source.free:
        name = "the treasury" if amount > 0 else f"tenant {owner}"
        raise LedgerError(
            f"{exact_credits_text(abs(amount) / MICRO)} credits can't be moved: {name} has"
            f" {balance_text(source)}"
        )
    moves = {treasury: -amount, account: amount}
    entry_store.post(connection, [Posting(TransactionKind.GRANT, full, moves)], at_s)
    debts.collect(connection, full, at_s)
    text = f"{amount / MICRO:+.6f} credits"
    note_store.add(
        connection, Note(at_s=at_s, kind=NoteKind.GRANT, who=who, owner=owner, text=text)
    )
    return tenant(connection, owner)


def balance(connection: sa.Connection, account: int) -> int:
    """Return the balance of an account. Raise NotFoundError if it is unknown."""
    row = account_store.get(connection, [account]).get(account)
    if row is None:
        raise NotFoundError(f"there is no account {account}")
    return row.balance


def history(
    connection: sa.Connection, account: int, since_s: float, until_s: float
) -> tuple[entry_store.EntryRow, ...]:
    """Return the entries of an account in [since_s, until_s), oldest first."""
    balance(connection, account)
    return entry_store.of_account(connection, account, since_s, until_s)


def accounts_of(connection: sa.Connection, owner: int) -> tuple[AccountRow, ...]:
    """Return the tenant's own account and its applications', oldest first."""
    return account_store.of_owner(connection, owner)


@dataclass(frozen=True, slots=True)
class Person:
    """OpenNebula's data of a user."""

    name: str | None = None
    group: int | None = None
    """The user's primary group."""

    def news(self, known: stored.TenantRow) -> bool:
        """Return whether this differs from the stored name or group."""
        return self.name not in {None, known.name} or self.group not in {None, known.group}


def update_tenants(
    connection: sa.Connection,
    owners: Iterable[int],
    money: MoneySettings,
    at_s: float,
    people: Mapping[int, Person] | None = None,
) -> None:
    """Open accounts for new tenants, and store changed names and groups of all tenants.

    A retired tenant whose user reappears in OpenNebula, for example after a restore, starts like a
    new tenant.
    """
    people = people or {}
    known = {row.owner: row for row in stored.every(connection)}
    for row in known.values():
        if row.retired_s is not None and people.get(row.owner, Person()).name is not None:
            _reinstate(connection, row, money, at_s)
    changed = [row for row in known.keys() & people.keys() if people[row].news(known[row])]
    for owner in sorted({*owners, *changed} - (known.keys() - set(changed))):
        person = people.get(owner, Person())
        open_tenant(connection, owner, money, at_s, name=person.name, group=person.group)


def _reinstate(
    connection: sa.Connection, row: stored.TenantRow, money: MoneySettings, at_s: float
) -> None:
    """Make a retired tenant active again, with the starting credits."""
    account_store.lock_books(connection)
    stored.retire(connection, row.owner, None)
    account = account_store.ensure(connection, AccountKind.TENANT, row.owner)
    reference = f"{row.owner}/{round((row.retired_s or 0.0) * 1000)}"
    _begin(connection, account, money, reference, at_s)
    text = "OpenNebula shows the user again: it starts like a new tenant"
    note = Note(at_s=at_s, kind=NoteKind.RETIREMENT, who="OpenNebula", owner=row.owner, text=text)
    note_store.add(connection, note)


def _locked(connection: sa.Connection, account: int) -> AccountRow:
    return account_store.lock(connection, [account])[account]
