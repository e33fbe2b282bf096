"""Whom a question means by a tenant, and what the ledger refuses in the asker's words."""

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from merkatd.api.questions.words import (
    LONGEST_NAME,
    Arguments,
    QuestionError,
    shown,
    text,
    whole,
)
from merkatd.ledger import Ledger, LedgerError

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


def refusing(answer: Answer) -> Answer:
    """What the ledger refuses is told in its words."""

    async def told(arguments: Arguments) -> Any:
        try:
            return await answer(arguments)
        except LedgerError as error:
            raise QuestionError(str(error)) from None

    return told
