"""Questions about tenants, weights, grants, budgets and statements.

Amounts are credits, for people. Where programs add them up, the micro-credits are there too.
"""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from merkatd.base.quantities import shown
from merkatd.database.ledger.tenant_store import MOST_WEIGHT
from merkatd.ledger import (
    MICRO,
    MOST_CREDITS,
    Ledger,
    LedgerError,
    Month,
    NoteKind,
    TenantAccount,
    micro,
    month_of,
    parse_month,
)
from merkatd.service.account_rows import (
    Names,
    Row,
    budget_row,
    note_row,
    standing_row,
    statement_row,
)
from merkatd.service.base.arguments import LONGEST_NAME, Arguments, number, one_of, text, whole
from merkatd.service.base.errors import InvalidRequestError

Answer = Callable[[Arguments], Awaitable[Any]]
_NOBODY: Mapping[int, str] = MappingProxyType({})


async def owner_of(
    ledger: Ledger, arguments: Arguments, others: Mapping[int, str] = _NOBODY
) -> int:
    """Return the id of `tenant`, an id or a name; `others` are names besides the ledger's."""
    wanted = arguments.get("tenant")
    if isinstance(wanted, str) and not (wanted.isascii() and wanted.isdigit()):
        name, present = text(arguments, "tenant"), await ledger.names(retired=False)
        # A retired tenant may have the name of a new tenant: then the name means the new tenant.
        there = present | dict(others)
        return _called(name, there if name in there.values() else await ledger.names())
    if isinstance(wanted, str) and len(wanted) <= LONGEST_NAME:
        wanted = int(wanted)
    found = whole({"tenant": wanted}, "tenant")
    if found is None:
        raise InvalidRequestError("tenant: must be the id or the name of a user")
    return found


def _called(name: str | None, names: Mapping[int, str | None]) -> int:
    known = [owner for owner, its in names.items() if its == name]
    if len(known) > 1:
        ids = ", ".join(map(str, sorted(known)))
        raise InvalidRequestError(f"several tenants have the name {shown(name)}: use an id ({ids})")
    if not known:
        raise InvalidRequestError(f"no tenant has the id or name {shown(name)}")
    return known[0]


def ledger_errors_as_refusals(answer: Answer) -> Answer:
    """Return `answer` with the ledger's errors as InvalidRequestError with the same text."""

    async def told(arguments: Arguments) -> Any:
        try:
            return await answer(arguments)
        except LedgerError as error:
            raise InvalidRequestError(str(error)) from None

    return told


WHO = "an administrator"


class MoneyQuestions:
    """The questions about tenants and credits."""

    def __init__(
        self, ledger: Ledger, now: Callable[[], float], names: Callable[[], Names]
    ) -> None:
        """`names` returns OpenNebula's present names of users and groups."""
        self._ledger = ledger
        self._now = now
        self._names = names
        self.known: Mapping[str, Callable[[Arguments], Awaitable[Any]]] = {
            name: ledger_errors_as_refusals(answer)
            for name, answer in (
                ("tenants", self._tenants),
                ("tenant", self._tenant),
                ("tenant_weight", self._weight),
                ("tenant_grant", self._grant),
                ("renew", self._renew),
                ("void", self._void),
                ("budgets", self._budgets),
                ("budget", self._budget),
                ("statement", self._statement),
                ("money_notes", self._notes),
            )
        }

    async def _tenants(self, _arguments: Arguments) -> Row:
        """Return active and retired tenants, the supply, and the supply policy's last change."""
        found = await self._ledger.tenants()
        supply = await self._ledger.supply()
        changes = await self._ledger.notes(1, NoteKind.SUPPLY)
        held = sum(one.holdings for one in found)
        return {
            "supply": supply / MICRO,
            "treasury": (supply - held) / MICRO,
            "changed_s": changes[0].at_s if changes else None,
            "change": changes[0].text if changes else None,
            "tenants": [standing_row(one, self._names()) for one in found if one.retired_s is None],
            "retired": [
                standing_row(one, self._names()) for one in found if one.retired_s is not None
            ],
        }

    async def _tenant(self, arguments: Arguments) -> Row:
        """Return `tenant`, an id or a name, with its applications and the latest notes."""
        one = await self._named(arguments)
        budgets = await self._ledger.budgets_of(one.owner)
        notes = await self._ledger.notes(10, owner=one.owner)
        return standing_row(one, self._names()) | {
            "applications": [budget_row(budget, one.name) for budget in budgets],
            "notes": [note_row(note) for note in notes],
        }

    async def _weight(self, arguments: Arguments) -> Row:
        """Set the `weight` of a `tenant` or of a `group`; null removes it."""
        weight = number(arguments, "weight", MOST_WEIGHT)
        group = self._group(arguments)
        if group is not None:
            await self._ledger.set_group_weight(group, weight, WHO)
            return await self._tenants({})
        owner = await self._owner(arguments, new=True)
        await self._ledger.meet(owner, self._names().users.get(owner))
        return standing_row(await self._ledger.set_weight(owner, weight, WHO), self._names())

    async def _grant(self, arguments: Arguments) -> Row:
        """Move `credits` from the treasury to a `tenant`; a negative amount moves them back."""
        amount = arguments.get("credits")
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            raise InvalidRequestError(f"credits: must be a number (got {shown(amount)})")
        if not abs(amount) <= MOST_CREDITS:
            raise InvalidRequestError(
                f"credits: must be at most {MOST_CREDITS:g} (got {shown(amount)})"
            )
        owner = await self._owner(arguments, new=True)
        await self._ledger.meet(owner, self._names().users.get(owner))
        found = await self._ledger.grant(owner, micro(float(amount)), WHO)
        return standing_row(found, self._names())

    async def _renew(self, _arguments: Arguments) -> Row:
        """Renew all accounts now; the next automatic renewal comes an interval from now."""
        paid = await self._ledger.renew(WHO)
        return {"paid": paid / MICRO} | await self._tenants({})

    async def _void(self, arguments: Arguments) -> Row:
        """Refund the charges of `period`; the ledger records `why`."""
        period = whole(arguments, "period")
        why = text(arguments, "why")
        if period is None or why is None:
            raise InvalidRequestError(
                "period, why: must be a period's number and the reason to void it"
            )
        return {"period": period, "credits": await self._ledger.void(period, why, WHO) / MICRO}

    async def _budgets(self, arguments: Arguments) -> list[Row]:
        """Return the budgets of a `tenant`, or of all applications that have not ended."""
        owner = None
        if arguments.get("tenant") is not None:
            owner = (await self._named(arguments)).owner
        names = await self._ledger.names()
        found = await self._ledger.budgets_of(owner)
        return [budget_row(one, names.get(one.owner)) for one in found]

    async def _budget(self, arguments: Arguments) -> Row:
        """Return the budget of `application`; change it if `amount` or `replenishment` is given."""
        application = whole(arguments, "application")
        if application is None:
            raise InvalidRequestError("application: must be the id of an application")
        names = await self._ledger.names()
        amount = number(arguments, "amount", MOST_CREDITS)
        refill = number(arguments, "replenishment", MOST_CREDITS)
        if amount is None and refill is None:
            found = await self._ledger.budget_of(application)
        else:
            found = await self._ledger.set_budget(
                application,
                None if amount is None else micro(amount),
                None if refill is None else micro(refill),
                WHO,
            )
        return budget_row(found, names.get(found.owner))

    async def _statement(self, arguments: Arguments) -> Row:
        """Return the statement of a `tenant` for `month`, like 2026-05 (default: this month)."""
        one = await self._named(arguments)
        found = await self._ledger.statement(one.owner, self._month(arguments))
        return statement_row(found, self._names())

    async def _notes(self, arguments: Arguments) -> list[Row]:
        """Return the notes on money, by administrators and by policy, newest first."""
        kind = one_of(arguments, "kind", [str(one) for one in NoteKind])
        limit = whole(arguments, "limit") or 50
        found = await self._ledger.notes(limit, None if kind is None else NoteKind(kind))
        return [note_row(note) for note in found]

    # -- arguments ------------------------------------------------------------------------------

    def _month(self, arguments: Arguments) -> Month:
        wanted = text(arguments, "month")
        if wanted is None:
            return month_of(self._now())
        try:
            return parse_month(wanted)
        except ValueError as error:
            raise InvalidRequestError(f"month: {error}") from None

    async def _named(self, arguments: Arguments) -> TenantAccount:
        return await self._ledger.tenant(await self._owner(arguments))

    async def _owner(self, arguments: Arguments, *, new: bool = False) -> int:
        """Return the id of `tenant`; with `new`, also of a user that only OpenNebula knows."""
        others = self._names().users if new else {}
        return await owner_of(self._ledger, arguments, others)

    def _group(self, arguments: Arguments) -> int | None:
        """Return the id of `group`, an id or a name, or None if it is not given."""
        wanted = arguments.get("group")
        if not isinstance(wanted, str):
            return whole(arguments, "group")
        if wanted.isascii() and wanted.isdigit() and len(wanted) <= LONGEST_NAME:
            return whole({"group": int(wanted)}, "group")
        known = [group for group, its in self._names().groups.items() if its == wanted]
        if len(known) != 1:
            raise InvalidRequestError(f"no group has the id or name {shown(wanted)}")
        return known[0]
