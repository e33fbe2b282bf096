"""Lists of rows: their search, filters, order and pages, all from the query of the address."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

from merkatd.web.base.responses import BrowserRequest, PageResponse
from merkatd.web.base.routes import PageRequest
from merkatd.web.layout.html import Markup, Part, element, hidden
from merkatd.web.layout.page_frame import page_in_frame, panel
from merkatd.web.layout.widgets import HeadLink, HeadLinks, count_text

ROWS = 100
_LONGEST_SEARCH = 100
_MOST_CHOICES = 50
"""The most values of a filter that a list offers."""
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFields(Generic[Row]):
    """What a visitor can search, filter and order in a list."""

    text: Callable[[Row], str]
    """The text of a row in which a search looks."""
    orders: Mapping[str, Callable[[Row], Any]]
    """By the head of a column: the value of a row, None if it is unknown."""
    numbers: Sequence[str] = ()
    """The heads whose first order is the highest value first."""
    filters: Mapping[str, Callable[[Row], str]] = field(default_factory=dict)
    """By name: the value of a row."""


@dataclass(frozen=True, slots=True)
class RowChoice:
    """What a visitor chose in a list."""

    path: str
    search: str = ""
    filters: Mapping[str, str] = field(default_factory=dict)
    head: str = ""
    """The head of the column that orders the rows, "" for the usual order."""
    down: bool = False
    """Whether the highest value comes first."""
    range: str = ""
    """The range of the charts beside the list, which a choice leaves as it is."""

    def address(self, **changes: str) -> str:
        """Return the address of the list with this choice, but for the changed fields."""
        fields = {
            "q": self.search,
            **self.filters,
            "sort": _sort_of(self.head, down=self.down) if self.head else "",
            "range": self.range,
            **changes,
        }
        query = urlencode({name: value for name, value in fields.items() if value})
        return f"{self.path}?{query}" if query else self.path

    @property
    def narrows(self) -> bool:
        """Return whether the choice leaves rows out."""
        return bool(self.search or self.filters)


def choice_of(fields: RowFields[Any], asked: BrowserRequest, path: str) -> RowChoice:
    """Return the choice in the query of a request; unknown values count as not given."""
    query = asked.query
    filters = {name: query.field(name)[:_LONGEST_SEARCH] for name in fields.filters}
    sort = query.field("sort")
    heads = {_slug(head): head for head in fields.orders}
    return RowChoice(
        path=path,
        search=" ".join(query.field("q")[:_LONGEST_SEARCH].split()),
        filters={name: value for name, value in filters.items() if value},
        head=heads.get(sort.removeprefix("-"), ""),
        down=sort.startswith("-"),
        range=query.field("range")[:_LONGEST_SEARCH],
    )


def chosen(fields: RowFields[Row], rows: Sequence[Row], choice: RowChoice) -> Sequence[Row]:
    """Return the rows of a choice in its order; rows with unknown values come last. Pure."""
    words = choice.search.casefold().split()
    for name, value in choice.filters.items():
        of = fields.filters[name]
        rows = [row for row in rows if of(row) == value]
    if words:
        text = fields.text
        rows = [row for row in rows if _has_all(text(row).casefold(), words)]
    if not choice.head:
        return rows
    value_of = fields.orders[choice.head]
    known: list[tuple[Any, Row]] = []
    unknown: list[tuple[Any, Row]] = []
    for row in rows:
        value = value_of(row)
        (unknown if _is_unknown(value) else known).append((value, row))
    known.sort(key=lambda pair: pair[0], reverse=choice.down)
    return [row for _, row in (*known, *unknown)]


def _has_all(text: str, words: Iterable[str]) -> bool:
    return all(word in text for word in words)


def _is_unknown(value: Any) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))


def _slug(head: str) -> str:
    """Return the name of a column in addresses."""
    return "-".join(head.lower().replace("?", "").split())


def _sort_of(head: str, *, down: bool) -> str:
    return f"{'-' if down else ''}{_slug(head)}"


def head_links(fields: RowFields[Any], choice: RowChoice) -> HeadLinks:
    """Return the links that order a list by a column; the same column again turns the order."""
    links = {}
    for head in fields.orders:
        here = head == choice.head
        down = not choice.down if here else head in fields.numbers
        links[head] = HeadLink(
            choice.address(sort=_sort_of(head, down=down)),
            ("descending" if choice.down else "ascending") if here else None,
        )
    return links


async def list_page(
    request: PageRequest,
    title: str,
    what: str,
    rows: Sequence[Row],
    shown: Callable[[Sequence[Row], HeadLinks], Part],
    fields: RowFields[Row],
    more: Part = None,
) -> PageResponse:
    """Return a page with a list; `what` names a row."""
    parts = chosen_rows(request, rows, shown, fields, what)
    heading = count_text(len(rows), what)
    return await page_in_frame(
        request, title, element("h1", title), panel(heading, *parts, more=more)
    )


def chosen_rows(
    request: PageRequest,
    rows: Sequence[Row],
    shown: Callable[[Sequence[Row], HeadLinks], Part],
    fields: RowFields[Row],
    what: str,
    path: str | None = None,
) -> Sequence[Part]:
    """Return a search form, the chosen part of the rows, and links to the other parts.

    `path` is the address of the list, as for `page_of_rows`.
    """
    choice = choice_of(fields, request.asked, path or request.asked.path)
    found = chosen(fields, rows, choice)
    some, at, pages = page_of(found, request.asked)
    links = head_links(fields, choice)
    told, listed = None, None
    if choice.narrows and rows:
        number = f"{len(found):,}" if found else "None"
        every = element("a", "Show all", href=choice.path)
        told = element("p", f"{number} of {count_text(len(rows), what)} match. ", every)
    if found or not rows:
        listed = shown(some, links)
    return (
        _choice_form(fields, rows, choice, what) if rows else None,
        told,
        listed,
        _pager(choice.address, "page", at, pages),
    )


def _choice_form(
    fields: RowFields[Row], rows: Sequence[Row], choice: RowChoice, what: str
) -> Markup:
    """Return the form that searches, filters and orders a list; it works without scripts."""
    searched = element(
        "input", name="q", type="search", value=choice.search, aria_label=f"Search: {what}",
        placeholder="Search", maxlength=_LONGEST_SEARCH,
    )  # fmt: skip
    narrowed = [
        _select(name, f"Any {name}", [(value, value) for value in values], choice.filters.get(name))
        for name, of in fields.filters.items()
        if len(values := sorted({of(row) for row in rows} - {""})[:_MOST_CHOICES]) > 1
        or name in choice.filters
    ]
    orders = [
        (_sort_of(head, down=down), f"{head}, {'highest' if head in fields.numbers else 'Z'} first")
        if down
        else (
            _sort_of(head, down=down),
            f"{head}, {'lowest' if head in fields.numbers else 'A'} first",
        )
        for head in fields.orders
        for down in ((True, False) if head in fields.numbers else (False, True))
    ]
    now = _sort_of(choice.head, down=choice.down) if choice.head else None
    return element(
        "form",
        searched,
        narrowed,
        _select("sort", "Usual order", orders, now),
        hidden({"range": choice.range}) if choice.range else None,
        element("button", "Show", type="submit"),
        method="get",
        action=choice.path,
        class_="choice",
        role="search",
        aria_label=f"Search: {what}",
    )


def _select(name: str, none: str, values: Iterable[tuple[str, str]], now: str | None) -> Markup:
    options = [element("option", none, value="")]
    options += [
        element("option", words, value=value, selected=value == now) for value, words in values
    ]
    label = "Order" if name == "sort" else name.capitalize()
    return element("select", options, name=name, aria_label=label)


def page_of_rows(
    request: PageRequest,
    rows: Sequence[Row],
    shown: Callable[[Sequence[Row]], Part],
    path: str | None = None,
    field: str = "page",
) -> Sequence[Part]:
    """Return the requested part of the rows, and links to the other parts.

    `path` is the address of the list; None: the address of the request. The answer to a form
    needs it to show a list. `field` of the query has the number of the part: a second list of an
    address needs another one.
    """
    some, at, pages = page_of(rows, request.asked, field)
    plain = RowChoice(path or request.asked.path)
    return shown(some), _pager(plain.address, field, at, pages)


def page_of(
    rows: Sequence[Row], asked: BrowserRequest, field: str = "page"
) -> tuple[Sequence[Row], int, int]:
    """Return the rows of the requested page of a list, its number, and the number of pages."""
    pages = max(-(-len(rows) // ROWS), 1)
    wanted = asked.query.field(field) or "1"
    plain = wanted.isascii() and wanted.isdigit() and len(wanted) < 8
    at = min(max(int(wanted) if plain else 1, 1), pages)
    return rows[(at - 1) * ROWS : at * ROWS], at, pages


def _pager(address: Callable[..., str], field: str, at: int, pages: int) -> Part:
    """Return links to the previous and the next page of a list."""
    if pages == 1:
        return None

    def to(page: int) -> str:
        return address(**{field: str(page)})

    before = element("a", "Previous", href=to(at - 1), rel="prev") if at > 1 else None
    after = element("a", "Next", href=to(at + 1), rel="next") if at < pages else None
    return element("nav", before, f" {at} of {pages} ", after, aria_label="Rows", class_="pager")
