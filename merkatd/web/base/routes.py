"""The table of routes: the page of each address, and the permission that it needs."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from merkatd.api.xmlrpc.method_table import MAX_NUMBER
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import TryAgainError
from merkatd.service.base.period_view import PeriodView, QuotedView
from merkatd.service.modes import ModeState
from merkatd.service.platforms import PlatformSummary
from merkatd.service.services import DaemonServices
from merkatd.web.base.form_reader import MOST_FORM_BYTES
from merkatd.web.base.goals import Goals
from merkatd.web.base.period_memory import Past, PeriodRecord
from merkatd.web.base.responses import BrowserRequest, LiveResponse, PageResponse
from merkatd.web.base.stored_answers import NEEDED, PageRead

_LONGEST_ID = 10
LONGEST_ADDRESS = 256
"""The longest address to which the sign-in returns, in characters."""
_QUERY = re.compile(r"[A-Za-z0-9_.~%+&=-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A visitor's request for a page."""

    house: DaemonServices
    goals: Goals
    past: Past
    caller: Caller
    asked: BrowserRequest
    form: str
    """The session's secret, which each form contains."""
    id: int
    """The id in the address, -1 if it has none."""
    prepared: QuotedView | None
    """The period that the whole page shows, even if another ends meanwhile; None before the
    first period."""
    reading: PageRead
    """The page's reads from the database."""
    said: str = ""
    """What the visitor's last order did, if this page is the answer to it."""

    @property
    def view(self) -> QuotedView:
        """Return the page's period with its quotes. Raise TryAgainError before the first period."""
        if self.prepared is None:
            raise TryAgainError("no period has ended yet: try again in a moment")
        return self.prepared

    @property
    def now(self) -> PeriodView:
        """Return the view of the page's period. Raise TryAgainError before the first period."""
        return self.view.now

    @property
    def period(self) -> int:
        """Return the period's number. Raise TryAgainError before the first period."""
        return self.now.snapshot.period

    @property
    def moments(self) -> Sequence[PeriodRecord]:
        """Return the records of this period and earlier ones. Raise TryAgainError before any."""
        return self.past.until(self.period)

    @property
    def range(self) -> str:
        """Return the name of the range of time that the visitor chose for charts, or ""."""
        return self.asked.query.field("range")

    @property
    def chart_moments(self) -> Sequence[PeriodRecord]:
        """Return the records for charts. Raise TryAgainError before the first period."""
        return self.past.over(self.range, self.period)

    @property
    def uid(self) -> int:
        """Return the visitor's user id."""
        return self.caller.identity.uid

    @property
    def admin(self) -> bool:
        """Return whether the visitor is an administrator and sees everything."""
        return self.caller.identity.is_admin

    @property
    def name(self) -> str:
        """Return the visitor's user name."""
        return self.caller.identity.name

    def count_order(self, weight: float, *arguments: Any) -> None:
        """Count an order of the visitor, or its quote, which takes as much work.

        Raise TooManyOrdersError if there were too many.
        """
        if not self.admin:
            self.house.orders.count(self.uid, weight, list(arguments))

    async def read(
        self, key: tuple[Any, ...], read: Callable[[], Awaitable[Any]], default: Any = NEEDED
    ) -> Any:
        """Return a value from the database, or this visitor's previous one if the database is slow.

        The answer to a form never uses a previous value.
        """
        if self.asked.method == "POST":
            return await read()
        return await self.reading.get((self.caller.identity, *key), read, default)

    async def waiting_plan(self) -> int | None:
        """Return the number of the plan that waits for an approval, None if there is none."""
        mode: ModeState | None = await self.read(("mode",), self.house.modes.mode, None)
        return None if mode is None else mode.waiting_plan

    async def platforms(self) -> Sequence[PlatformSummary]:
        """Return the short views of the visitor's platforms, or of all for an administrator.

        The read adds up all charges of each platform, so it waits for a turn of the long reads.
        """
        there = self.house.platforms
        if there is None:
            return []
        read = partial(there.platforms, self.caller, None if self.admin else self.uid)
        platforms: Sequence[PlatformSummary] = await self.read(
            ("platforms",), lambda: self.house.long_reads.run(self.uid, read), []
        )
        return platforms


Function = Callable[[PageRequest], Awaitable[PageResponse | LiveResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """The page or form handler of an address."""

    method: str
    path: str
    """The address, in which {} stands for an id."""
    function: Function
    admin: bool
    changes: bool
    """Whether the request can change what other pages show."""
    most: int
    """The most bytes of a form sent to this address."""


ROUTES: list[Route] = []


def route(
    method: str,
    path: str,
    *,
    admin: bool = False,
    quotes: bool = False,
    most: int = MOST_FORM_BYTES,
) -> Callable[[Function], Function]:
    """Return a decorator that adds a function to the table; a form with `quotes` is read-only."""

    def register(function: Function) -> Function:
        changes = method == "POST" and not quotes
        ROUTES.append(Route(method, path, function, admin, changes, most))
        return function

    return register


def local_address(text: str) -> str:
    """Return the address of a page of this site with its query, or "/" for any other text."""
    path, mark, query = text.partition("?")
    plain = len(text) <= LONGEST_ADDRESS and _QUERY.fullmatch(query)
    return f"{path}{mark}{query}" if plain and find("GET", path) is not None else "/"


def find(method: str, path: str) -> tuple[Route, int] | None:
    """Return the route of an address and the id in it, None for an unknown address."""
    wanted = "GET" if method == "HEAD" else method
    for entry in ROUTES:
        match = _pattern(entry.path).fullmatch(path) if entry.method == wanted else None
        if match is None:
            continue
        id_ = int(match["id"]) if "id" in match.groupdict() else -1
        return (entry, id_) if id_ < MAX_NUMBER else None
    return None


_PATTERNS: dict[str, re.Pattern[str]] = {}


def _pattern(path: str) -> re.Pattern[str]:
    if path not in _PATTERNS:
        number = rf"(?P<id>[0-9]{{1,{_LONGEST_ID}}})"
        _PATTERNS[path] = re.compile(re.escape(path).replace(r"\{\}", number), re.ASCII)
    return _PATTERNS[path]


def fields(asked: BrowserRequest, *names: str) -> Mapping[str, str]:
    """Return these fields of a form, without surrounding blanks."""
    return {name: asked.field(name).strip() for name in names}
