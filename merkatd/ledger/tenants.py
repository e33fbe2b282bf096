"""Tenants with their accounts: who they are, what they hold, what is set and given by hand."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from merkatd.currency import MICRO, MOST_CREDITS, micro
from merkatd.currency.income import RenewalPart as Claim
from merkatd.currency.income import entitlements
from merkatd.currency.settings import MoneySettings
from merkatd.database.ledger import account_store, entry_store, note_store
from merkatd.database.ledger import tenant_store as stored
from merkatd.database.ledger.account_store import AccountKind, AccountRow
from merkatd.database.ledger.entry_store import Posting, TransactionKind
from merkatd.database.ledger.note_store import Note, NoteKind
from merkatd.ledger import debts
from merkatd.ledger.errors import LedgerError, NotFoundError, told

FIRST_ISSUE = "issue/first"
"""The reference of a supply's beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantAccount:
    """A tenant and what it holds; amounts are micro-credits."""

    owner: int
    """OpenNebula's id of the user."""
    name: str | None
    group: int | None
    weight: float
    own_weight: float | None
    """None where the weight is its group's, or the one that everybody has."""
    entitlement: int
    """What a renewal tops its holdings up to."""
    account: int
    balance: int
    in_applications: int
    """What its applications hold together."""
    reserved: int = 0
    """The part of its own account that waits for charges."""
    debt: int = 0
    """What it owes for earlier periods."""
    retired_s: float | None = None
    """When it was retired, because OpenNebula had removed its user."""

    @property
    def holdings(self) -> int:
        """Its account and its applications together."""
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
    """The tenant's account; opened with what everybody starts with where it is new."""
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
    """The tenant's account with the credits that every tenant starts with."""
    treasury = account_store.treasury(connection)
    start = money.start_of(weight_of(connection, account.owner or 0))
    if money.supply <= 0:
        # All credits together stay what a database counts, however many tenants come.
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
    """The weight of a user, whether it is known or not."""
    known = stored.get(connection, owner)
    return stored.DEFAULT_WEIGHT if known is None else known.weight


def issue(connection: sa.Connection, supply: int, reference: str, at_s: float) -> None:
    """Issue so many micro-credits into the treasury, once under this reference."""
    issuance, treasury = account_store.issuance(connection), account_store.treasury(connection)
    moves = {issuance.id: -supply, treasury.id: supply}
    entry_store.post(connection, [Posting(TransactionKind.ISSUE, reference, moves)], at_s)


def tenants(connection: sa.Connection) -> tuple[TenantAccount, ...]:
    """All tenants, by id."""
    return standings(connection, account_store.holding(connection))


def standings(connection: sa.Connection, every: Iterable[AccountRow]) -> tuple[TenantAccount, ...]:
    """All tenants, by id, with what they hold in these accounts: all that hold credits."""
    known = stored.every(connection)
    account: dict[int, AccountRow] = {}
    inside: Counter[int] = Counter()
    issued = 0
    for one in every:
        if one.kind is AccountKind.ISSUANCE:
            issued = -one.balance
        elif one.kind is AccountKind.TENANT and one.owner is not None:
            account[one.owner] = one
        elif one.owner is not None:
            inside[one.owner] += one.balance
    claims = [
        Claim(one.owner, one.weight, account[one.owner].balance + inside[one.owner])
        for one in known
        if one.owner in account and one.retired_s is None
    ]
    entitled = entitlements(issued, claims)
    return tuple(
        TenantAccount(
            owner=one.owner,
            name=one.name,
            group=one.group,
            weight=one.weight,
            own_weight=one.own_weight,
            entitlement=entitled.get(one.owner, 0),
            account=account[one.owner].id,
            balance=account[one.owner].balance,
            in_applications=inside[one.owner],
            reserved=account[one.owner].reserved,
            debt=account[one.owner].debt,
            retired_s=one.retired_s,
        )
        for one in known
        if one.owner in account
    )


def tenant(connection: sa.Connection, owner: int) -> TenantAccount:
    """One tenant. Raises NotFoundError."""
    found = next((one for one in tenants(connection) if one.owner == owner), None)
    if found is None:
        raise NotFoundError(f"user {owner} is no tenant: nothing of it was seen or set yet")
    return found


def present(connection: sa.Connection, owner: int) -> TenantAccount:
    """One tenant that is not retired. Raises LedgerError."""
    found = tenant(connection, owner)
    if found.retired_s is not None:
        raise LedgerError(f"tenant {owner} is retired: OpenNebula has removed its user")
    return found


def names(connection: sa.Connection, *, retired: bool = True) -> dict[int, str]:
    """By id: the names of all tenants whose name is known; with or without the retired ones."""
    return stored.names(connection, retired=retired)


def supply_of(connection: sa.Connection) -> int:
    """All micro-credits there are: what issuance owes."""
    return -account_store.issuance(connection).balance


def set_weight(
    connection: sa.Connection, owner: int, weight: float | None, who: str, at_s: float
) -> TenantAccount:
    """Give a known tenant a weight of its own, which counts from the next renewal on."""
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
    """Give a group a weight, for all its tenants that have none of their own."""
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
    """Move micro-credits from the treasury to a tenant, or back where they are negative.

    `reference` is the asker's own for this one act: asked for again it changes nothing.
    """
    account_store.lock_books(connection)
    account = present(connection, owner).account
    if amount == 0:
        raise LedgerError("0 credits can't be granted")
    full = f"grant/{reference}"
    if entry_store.posted(connection, [full]):
        return tenant(connection, owner)
    treasury = account_store.treasury(connection).id
    held = account_store.lock(connection, [treasury, account])
    source = held[treasury] if amount > 0 else held[account]
    if abs(amount) > source.free:
        name = "the treasury" if amount > 0 else f"tenant {owner}"
        raise LedgerError(
            f"{abs(amount) / MICRO:g} credits can't be moved: {name} holds {told(source)}"
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
    """What an account holds. Raises NotFoundError."""
    found = account_store.get(connection, [account]).get(account)
    if found is None:
        raise NotFoundError(f"there is no account {account}")
    return found.balance


def history(
    connection: sa.Connection, account: int, since_s: float, until_s: float
) -> tuple[entry_store.EntryRow, ...]:
    """The entries of an account from one time up to and without another, oldest first."""
    balance(connection, account)
    return entry_store.of_account(connection, account, since_s, until_s)


def accounts_of(connection: sa.Connection, owner: int) -> tuple[AccountRow, ...]:
    """The tenant's own account and its applications', oldest first."""
    return account_store.of_owner(connection, owner)


@dataclass(frozen=True, slots=True)
class Person:
    """What OpenNebula says of a user."""

    name: str | None = None
    group: int | None = None
    """Its primary group."""

    def news(self, known: stored.TenantRow) -> bool:
        """Whether that is something else than what is known."""
        return self.name not in {None, known.name} or self.group not in {None, known.group}


def update_tenants(
    connection: sa.Connection,
    owners: Iterable[int],
    money: MoneySettings,
    at_s: float,
    people: Mapping[int, Person] | None = None,
) -> None:
    """Meet these users, as far as they are no tenants yet, and hear the news of all tenants.

    A retired tenant that OpenNebula shows again, from a backup perhaps, starts like a new one.
    """
    people = people or {}
    known = {one.owner: one for one in stored.every(connection)}
    for one in known.values():
        if one.retired_s is not None and people.get(one.owner, Person()).name is not None:
            _reinstate(connection, one, money, at_s)
    changed = [one for one in known.keys() & people.keys() if people[one].news(known[one])]
    for owner in sorted({*owners, *changed} - (known.keys() - set(changed))):
        person = people.get(owner, Person())
        open_tenant(connection, owner, money, at_s, name=person.name, group=person.group)


def _reinstate(
    connection: sa.Connection, one: stored.TenantRow, money: MoneySettings, at_s: float
) -> None:
    """Make a tenant of a retired one."""
    account_store.lock_books(connection)
    stored.retire(connection, one.owner, None)
    account = account_store.ensure(connection, AccountKind.TENANT, one.owner)
    reference = f"{one.owner}/{round((one.retired_s or 0.0) * 1000)}"
    _begin(connection, account, money, reference, at_s)
    text = "OpenNebula shows the user again: it starts like a new tenant"
    note = Note(at_s=at_s, kind=NoteKind.RETIREMENT, who="OpenNebula", owner=one.owner, text=text)
    note_store.add(connection, note)


def _locked(connection: sa.Connection, account: int) -> AccountRow:
    return account_store.lock(connection, [account])[account]
