"""Questions about money: tenants, budgets, statements; whoever may open the socket may ask all.

Amounts are credits for people, and micro-credits beside them where programs add up.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from merkatd.api.questions.words import (
    LONGEST_NAME,
    Arguments,
    QuestionError,
    number,
    one_of,
    shown,
    text,
    whole,
)
from merkatd.currency.statement import StatementLine
from merkatd.database.tenants import MOST_WEIGHT
from merkatd.ledger import (
    MICRO,
    MOST_CREDITS,
    Budget,
    Ledger,
    LedgerError,
    Month,
    NoteKind,
    Standing,
    Statement,
    micro,
    month_of,
    parse_month,
)

WHO = "an administrator"

Row = dict[str, Any]


class MoneyQuestions:
    """The questions that the ledger answers."""

    def __init__(self, ledger: Ledger, now: Callable[[], float]) -> None:
        self._ledger = ledger
        self._now = now
        self.known: Mapping[str, Callable[[Arguments], Awaitable[Any]]] = {
            name: _refusing(answer)
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
        """All tenants, the supply, and what the supply policy last did."""
        found = await self._ledger.tenants()
        supply = await self._ledger.supply()
        changes = await self._ledger.notes(1, NoteKind.SUPPLY)
        held = sum(one.holdings for one in found)
        return {
            "supply": supply / MICRO,
            "treasury": (supply - held) / MICRO,
            "changed_s": changes[0].at_s if changes else None,
            "change": changes[0].text if changes else None,
            "tenants": [_standing(one) for one in found],
        }

    async def _tenant(self, arguments: Arguments) -> Row:
        """One tenant, `tenant` by id or name, with its applications and what was done by hand."""
        one = await self._named(arguments)
        budgets = await self._ledger.budgets_of(one.owner)
        notes = await self._ledger.notes(10, owner=one.owner)
        return _standing(one) | {
            "applications": [_budget(budget) for budget in budgets],
            "notes": [_note(note) for note in notes],
        }

    async def _weight(self, arguments: Arguments) -> Row:
        """A new `weight` for a `tenant`, or for a `group`; null takes it away again."""
        weight = number(arguments, "weight", MOST_WEIGHT)
        group = whole(arguments, "group")
        if group is not None:
            await self._ledger.set_group_weight(group, weight, WHO)
            return await self._tenants({})
        owner = await self._owner(arguments, new=True)
        await self._ledger.meet(owner)
        return _standing(await self._ledger.set_weight(owner, weight, WHO))

    async def _grant(self, arguments: Arguments) -> Row:
        """Move `credits` from the treasury to a `tenant`, back where they are negative."""
        amount = arguments.get("credits")
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            raise QuestionError(f"credits: {shown(amount)}: a number is right")
        if not abs(amount) <= MOST_CREDITS:
            raise QuestionError(f"credits: {shown(amount)}: at most {MOST_CREDITS:g} are right")
        owner = await self._owner(arguments, new=True)
        await self._ledger.meet(owner)
        return _standing(await self._ledger.grant(owner, micro(float(amount)), WHO))

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
        if arguments.get("tenant") is None:
            return [_budget(one) for one in await self._ledger.budgets_of()]
        one = await self._named(arguments)
        return [_budget(budget) for budget in await self._ledger.budgets_of(one.owner)]

    async def _budget(self, arguments: Arguments) -> Row:
        """The budget of `application`, changed where `amount` or `replenishment` is given."""
        application = whole(arguments, "application")
        if application is None:
            raise QuestionError("application: the id of an application is right")
        amount = number(arguments, "amount", MOST_CREDITS)
        refill = number(arguments, "replenishment", MOST_CREDITS)
        if amount is None and refill is None:
            return _budget(await self._ledger.budget_of(application))
        return _budget(
            await self._ledger.set_budget(
                application,
                None if amount is None else micro(amount),
                None if refill is None else micro(refill),
                WHO,
            )
        )

    async def _statement(self, arguments: Arguments) -> Row:
        """The `month`, as 2026-05, of a `tenant`; the present one where none is named."""
        one = await self._named(arguments)
        return statement_value(await self._ledger.statement(one.owner, self._month(arguments)))

    async def _notes(self, arguments: Arguments) -> list[Row]:
        """What was done with money by hand and by policy, newest first."""
        kind = one_of(arguments, "kind", [str(one) for one in NoteKind])
        limit = whole(arguments, "limit") or 50
        found = await self._ledger.notes(limit, None if kind is None else NoteKind(kind))
        return [_note(note) for note in found]

    # -- words ----------------------------------------------------------------------------------

    def _month(self, arguments: Arguments) -> Month:
        wanted = text(arguments, "month")
        if wanted is None:
            return month_of(self._now())
        try:
            return parse_month(wanted)
        except ValueError as error:
            raise QuestionError(f"month: {error}") from None

    async def _named(self, arguments: Arguments) -> Standing:
        return await self._ledger.tenant(await self._owner(arguments))

    async def _owner(self, arguments: Arguments, *, new: bool = False) -> int:
        """The id that `tenant` names; a new tenant can only be named by its id."""
        wanted = arguments.get("tenant")
        if isinstance(wanted, str) and not (wanted.isascii() and wanted.isdigit()):
            name = text(arguments, "tenant")
            known = [one.owner for one in await self._ledger.tenants() if one.name == name]
            if len(known) == 1:
                return known[0]
            also = "; one that never had a VM goes by its id" if new else ""
            raise QuestionError(f"no tenant is called {shown(wanted)}, by id or by name{also}")
        if isinstance(wanted, str) and len(wanted) <= LONGEST_NAME:
            wanted = int(wanted)
        found = whole({"tenant": wanted}, "tenant")
        if found is None:
            raise QuestionError("tenant: the id or the name of a user is right")
        return found


def _refusing(
    answer: Callable[[Arguments], Awaitable[Any]],
) -> Callable[[Arguments], Awaitable[Any]]:
    """What the ledger refuses is told in its words."""

    async def refusing(arguments: Arguments) -> Any:
        try:
            return await answer(arguments)
        except LedgerError as error:
            raise QuestionError(str(error)) from None

    return refusing


def _standing(one: Standing) -> Row:
    return {
        "id": one.owner,
        "name": one.name,
        "group": one.group,
        "weight": one.weight,
        "own_weight": one.own_weight,
        "entitlement": one.entitlement / MICRO,
        "balance": one.balance / MICRO,
        "in_applications": one.in_applications / MICRO,
        "holdings": one.holdings / MICRO,
        "micro": one.holdings,
    }


def _budget(one: Budget) -> Row:
    return {
        "application": one.application,
        "name": one.name,
        "owner": one.owner,
        "budget": one.initial / MICRO,
        "replenishment": one.replenishment / MICRO,
        "balance": one.balance / MICRO,
        "micro": one.balance,
        "opened_s": one.opened_s,
        "ended_s": one.ended_s,
    }


def _note(note: Any) -> Row:
    return {
        "at_s": note.at_s,
        "kind": str(note.kind),
        "who": note.who,
        "tenant": note.owner,
        "text": note.text,
    }


def statement_value(found: Statement) -> Row:
    """A statement as JSON has it: credits, and the same in micro-credits to add up exactly."""
    return {
        "id": found.owner,
        "name": found.name,
        "group": found.group,
        "month": str(found.month),
        "opening": found.opening,
        "movements": dict(found.movements),
        "closing": found.closing,
        "charged": found.charged,
        "missing": found.missing,
        "difference": found.difference,
        "lines": [
            {
                "uid": found.owner,
                "user_name": found.name,
                "gid": found.group,
                "vm_id": line.vm,
                "vm_name": line.name,
                "month": found.month.month,
                "year": found.month.year,
                "hours": line.seconds / 3600,
                "running_hours": line.seconds / 3600,
                "cpu_hours": line.cpu_core_s / 3600,
                "memory_hours": line.memory_gib_s / 3600,
                "account": line.account,
                "cpu_cost": line.cpu_cost / MICRO,
                "memory_cost": line.memory_cost / MICRO,
                **further(line),
                "cost": line.cost / MICRO,
                "micro": line.cost,
            }
            for line in found.lines
        ],
    }


def further(line: StatementLine) -> dict[str, Any]:
    """What network and disk came to, where they were sold to the VM."""
    found: dict[str, Any] = {}
    if line.network_mbit or line.network_cost:
        found["network_mbit_hours"] = line.network_mbit / 3600
        found["network_cost"] = line.network_cost / MICRO
    if line.disk_mib or line.disk_cost:
        found["disk_mib_hours"] = line.disk_mib / 3600
        found["disk_cost"] = line.disk_cost / MICRO
    return found
