"""The table of routes: which page answers which address, and who may ask for it."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from merkatd.api.xmlrpc.method_table import MAX_NUMBER
from merkatd.api.xmlrpc.methods import METHODS
from merkatd.service import TryAgainError
from merkatd.service.base.identity import Caller
from merkatd.service.base.period_view import PeriodView, QuotedView
from merkatd.service.services import DaemonServices
from merkatd.web.base.form_reader import MOST_FORM_BYTES
from merkatd.web.base.goals import Goals
from merkatd.web.base.period_memory import Past, PeriodRecord
from merkatd.web.base.responses import BrowserRequest, LiveResponse, PageResponse
from merkatd.web.base.stored_answers import NEEDED, PageRead

_LONGEST_ID = 10
_READING = frozenset({"history", "info", "list"})
"""The last parts of the names of methods that change nothing."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A visitor at a page."""

    house: DaemonServices
    goals: Goals
    past: Past
    caller: Caller
    asked: BrowserRequest
    form: str
    """What its forms bring along."""
    id: int
    """Of whatever the address names; -1 where it names nothing."""
    prepared: QuotedView | None
    """The period that all of the page is of, whatever ends while it is made; None where there
    was none yet."""
    reading: PageRead
    """What the page reads from the database with."""

    @property
    def now(self) -> PeriodView:
        """What that period found and decided. Raises NotNowError."""
        if self.prepared is None:
            raise TryAgainError("there was no period yet: try again in a moment")
        return self.prepared.now

    @property
    def period(self) -> int:
        """Its number. Raises NotNowError."""
        return self.now.snapshot.period

    @property
    def moments(self) -> Sequence[PeriodRecord]:
        """What is kept of it and of those before it. Raises NotNowError."""
        return [one for one in self.past.moments if one.period <= self.period]

    @property
    def uid(self) -> int:
        """The visitor's."""
        return self.caller.identity.uid

    @property
    def admin(self) -> bool:
        """Whether it sees all."""
        return self.caller.identity.is_admin

    @property
    def name(self) -> str:
        """The visitor's."""
        return self.caller.identity.name

    async def call(self, method: str, *arguments: Any, default: Any = NEEDED) -> Any:
        """Return what a tenant's call of this name answers this visitor, rights included."""
        found = METHODS[method]

        async def call() -> Any:
            return await found.done(self.house, self.caller, found.completed(list(arguments)))

        if method.rpartition(".")[2] not in _READING:
            return await call()
        return await self.read((method, *arguments), call, default)

    def count(self, method: str, *arguments: Any) -> None:
        """Count a quote like the order that it is of: it takes as much work. Raises Refusal."""
        METHODS[method].count(self.house, self.caller, list(arguments))

    async def ask(self, question: str, **arguments: Any) -> Any:
        """Return the daemon's answer; the page must have checked the rights before."""
        return await self.house.questions.answer(question, arguments)

    async def read(
        self, key: tuple[Any, ...], read: Callable[[], Awaitable[Any]], default: Any = NEEDED
    ) -> Any:
        """Return what is read from the database, or what it was for this visitor before.

        A form is never answered with what was before.
        """
        if self.asked.method == "POST":
            return await read()
        return await self.reading.get((self.caller.identity, *key), read, default)

    async def stored(
        self, key: tuple[Any, ...], work: Callable[[sa.Connection], Any], default: Any = NEEDED
    ) -> Any:
        """Return what a function of a connection reads."""
        return await self.read(key, lambda: self.house.world.database.read(work), default)

    async def status(self) -> dict[str, Any]:
        """Return how the daemon is: what it knows itself is always of now."""
        stored = await self.read(("status",), lambda: self.ask("status"), {"waiting_plan": None})
        found: dict[str, Any] = {**stored, **self.house.questions.in_memory()}
        return found

    async def platforms(self) -> list[dict[str, Any]]:
        """Return the visitor's platforms in short, or all."""
        there = self.house.questions.platforms
        if there is None:
            return []
        owner = None if self.admin else self.uid
        rows: list[dict[str, Any]] = await self.read(
            ("platforms",), lambda: there.listed(owner), []
        )
        return rows


Function = Callable[[PageRequest], Awaitable[PageResponse | LiveResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """A page, a file of data, or a form's end."""

    method: str
    path: str
    """Where {} stands for an id."""
    function: Function
    admin: bool
    changes: bool
    """Whether others may see something else afterwards."""
    most: int
    """Bytes that a form sent there may have."""


ROUTES: list[Route] = []


def route(
    method: str,
    path: str,
    *,
    admin: bool = False,
    quotes: bool = False,
    most: int = MOST_FORM_BYTES,
) -> Callable[[Function], Function]:
    """Add a function to the table; a form that `quotes` changes nothing."""

    def register(function: Function) -> Function:
        changes = method == "POST" and not quotes
        ROUTES.append(Route(method, path, function, admin, changes, most))
        return function

    return register


def find(method: str, path: str) -> tuple[Route, int] | None:
    """The route of an address, and the id in it; None where nothing is there."""
    wanted = "GET" if method == "HEAD" else method
    for one in ROUTES:
        match = _pattern(one.path).fullmatch(path) if one.method == wanted else None
        if match is None:
            continue
        id_ = int(match["id"]) if "id" in match.groupdict() else -1
        return (one, id_) if id_ < MAX_NUMBER else None
    return None


_PATTERNS: dict[str, re.Pattern[str]] = {}


def _pattern(path: str) -> re.Pattern[str]:
    if path not in _PATTERNS:
        one = rf"(?P<id>[0-9]{{1,{_LONGEST_ID}}})"
        _PATTERNS[path] = re.compile(re.escape(path).replace(r"\{\}", one), re.ASCII)
    return _PATTERNS[path]


def fields(asked: BrowserRequest, *names: str) -> Mapping[str, str]:
    """What a form says of these, without blanks around."""
    return {name: asked.field(name).strip() for name in names}
