"""Tenants, weights, grants, budgets, statements.

Amounts are credits for people, and micro-credits beside them where programs add up.
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
from merkatd.service.base.errors import QuestionError

Answer = Callable[[Arguments], Awaitable[Any]]
_NOBODY: Mapping[int, str] = MappingProxyType({})


async def owner_of(
    ledger: Ledger, arguments: Arguments, others: Mapping[int, str] = _NOBODY
) -> int:
    """The id that `tenant` names, by id or by name; `others` are known besides the ledger's."""
    wanted = arguments.get("tenant")
    if isinstance(wanted, str) and not (wanted.isascii() and wanted.isdigit()):
        name, present = text(arguments, "tenant"), await ledger.names(retired=False)
        # The name of a retired tenant may be that of a new one, which is meant then.
        there = present | dict(others)
        return _called(name, there if name in there.values() else await ledger.names())
    if isinstance(wanted, str) and len(wanted) <= LONGEST_NAME:
        wanted = int(wanted)
    found = whole({"tenant": wanted}, "tenant")
    if found is None:
        raise QuestionError("tenant: the id or the name of a user is right")
    return found


def _called(name: str | None, names: Mapping[int, str | None]) -> int:
    known = [owner for owner, its in names.items() if its == name]
    if len(known) > 1:
        ids = ", ".join(map(str, sorted(known)))
        raise QuestionError(f"{shown(name)} are several: {ids}; an id is right")
    if not known:
        raise QuestionError(f"no tenant is called {shown(name)}, by id or by name")
    return known[0]


def ledger_errors_as_refusals(answer: Answer) -> Answer:
    """What the ledger refuses is told in its words."""

    async def told(arguments: Arguments) -> Any:
        try:
            return await answer(arguments)
        except LedgerError as error:
            raise QuestionError(str(error)) from None

    return told


WHO = "an administrator"


class MoneyQuestions:
    """The questions that the ledger answers."""

    def __init__(
        self, ledger: Ledger, now: Callable[[], float], names: Callable[[], Names]
    ) -> None:
        """`names` are OpenNebula's at present."""
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
        """All tenants, the retired ones apart, the supply, and what the policy last did."""
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
        """One tenant, `tenant` by id or name, with its applications and what was done by hand."""
        one = await self._named(arguments)
        budgets = await self._ledger.budgets_of(one.owner)
        notes = await self._ledger.notes(10, owner=one.owner)
        return standing_row(one, self._names()) | {
            "applications": [budget_row(budget, one.name) for budget in budgets],
            "notes": [note_row(note) for note in notes],
        }

    async def _weight(self, arguments: Arguments) -> Row:
        """A new `weight` for a `tenant`, or for a `group`; null takes it away again."""
        weight = number(arguments, "weight", MOST_WEIGHT)
        group = self._group(arguments)
        if group is not None:
            await self._ledger.set_group_weight(group, weight, WHO)
            return await self._tenants({})
        owner = await self._owner(arguments, new=True)
        await self._ledger.meet(owner, self._names().users.get(owner))
        return standing_row(await self._ledger.set_weight(owner, weight, WHO), self._names())

    async def _grant(self, arguments: Arguments) -> Row:
        """Move `credits` from the treasury to a `tenant`, back where they are negative."""
        amount = arguments.get("credits")
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            raise QuestionError(f"credits: {shown(amount)}: a number is right")
        if not abs(amount) <= MOST_CREDITS:
            raise QuestionError(f"credits: {shown(amount)}: at most {MOST_CREDITS:g} are right")
        owner = await self._owner(arguments, new=True)
        await self._ledger.meet(owner, self._names().users.get(owner))
        found = await self._ledger.grant(owner, micro(float(amount)), WHO)
        return standing_row(found, self._names())

    async def _renew(self, _arguments: Arguments) -> Row:
        """A renewal now; the next one by itself comes an interval from now."""
        paid = await self._ledger.renew(WHO)
        return {"paid": paid / MICRO} | await self._tenants({})

    async def _void(self, arguments: Arguments) -> Row:
        """Give back what was charged for `period`; `why` is written down."""
        period = whole(arguments, "period")
        why = text(arguments, "why")
        if period is None or why is None:
            raise QuestionError(
                "period, why: the number of a period, and why it is void, are right"
            )
        return {"period": period, "credits": await self._ledger.void(period, why, WHO) / MICRO}

    async def _budgets(self, arguments: Arguments) -> list[Row]:
        """The budgets of a `tenant`, or of all applications that are not over."""
        owner = None
        if arguments.get("tenant") is not None:
            owner = (await self._named(arguments)).owner
        names = await self._ledger.names()
        found = await self._ledger.budgets_of(owner)
        return [budget_row(one, names.get(one.owner)) for one in found]

    async def _budget(self, arguments: Arguments) -> Row:
        """The budget of `application`, changed where `amount` or `replenishment` is given."""
        application = whole(arguments, "application")
        if application is None:
            raise QuestionError("application: the id of an application is right")
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
        """The `month`, as 2026-05, of a `tenant`; the present one where none is named."""
        one = await self._named(arguments)
        found = await self._ledger.statement(one.owner, self._month(arguments))
        return statement_row(found, self._names())

    async def _notes(self, arguments: Arguments) -> list[Row]:
        """What was done with money by hand and by policy, newest first."""
        kind = one_of(arguments, "kind", [str(one) for one in NoteKind])
        limit = whole(arguments, "limit") or 50
        found = await self._ledger.notes(limit, None if kind is None else NoteKind(kind))
        return [note_row(note) for note in found]

    # -- words ----------------------------------------------------------------------------------

    def _month(self, arguments: Arguments) -> Month:
        wanted = text(arguments, "month")
        if wanted is None:
            return month_of(self._now())
        try:
            return parse_month(wanted)
        except ValueError as error:
            raise QuestionError(f"month: {error}") from None

    async def _named(self, arguments: Arguments) -> TenantAccount:
        return await self._ledger.tenant(await self._owner(arguments))

    async def _owner(self, arguments: Arguments, *, new: bool = False) -> int:
        """The id that `tenant` names; one that is `new` is a user that OpenNebula knows."""
        others = self._names().users if new else {}
        return await owner_of(self._ledger, arguments, others)

    def _group(self, arguments: Arguments) -> int | None:
        """The id that `group` names; None where none is named."""
        wanted = arguments.get("group")
        if not isinstance(wanted, str):
            return whole(arguments, "group")
        if wanted.isascii() and wanted.isdigit() and len(wanted) <= LONGEST_NAME:
            return whole({"group": int(wanted)}, "group")
        known = [group for group, its in self._names().groups.items() if its == wanted]
        if len(known) != 1:
            raise QuestionError(f"no group is called {shown(wanted)}, by id or by name")
        return known[0]
