"""Long lists, a hundred rows a page."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from merkatd.web.answers import Answer, Asked
from merkatd.web.markup import Part, h
from merkatd.web.pages.frame import framed, panel
from merkatd.web.routes import Here

ROWS = 100

Row = TypeVar("Row")


async def listed(
    here: Here,
    title: str,
    heading: str,
    rows: Sequence[Row],
    shown: Callable[[Sequence[Row]], Part],
    more: Part = None,
) -> Answer:
    """A page that is a list."""
    found = paged(here, rows, shown)
    return await framed(here, title, h("h1", title), panel(heading, *found, more=more))


def paged(
    here: Here,
    rows: Sequence[Row],
    shown: Callable[[Sequence[Row]], Part],
    path: str | None = None,
) -> Sequence[Part]:
    """Those of the rows that the address wants, and the way to the others.

    `path` is the address of the list, where the answer to a form shows it too.
    """
    some, at, pages = page_of(rows, here.asked)
    return shown(some), _pager(path or here.asked.path, at, pages)


def page_of(rows: Sequence[Row], asked: Asked) -> tuple[Sequence[Row], int, int]:
    """The rows of the page that the query wants, its number, and how many pages there are."""
    pages = max(-(-len(rows) // ROWS), 1)
    wanted = asked.query.field("page") or "1"
    plain = wanted.isascii() and wanted.isdigit() and len(wanted) < 8
    at = min(max(int(wanted) if plain else 1, 1), pages)
    return rows[(at - 1) * ROWS : at * ROWS], at, pages


def _pager(path: str, at: int, pages: int) -> Part:
    """The way to the other pages."""
    if pages == 1:
        return None
    before = h("a", "Before", href=f"{path}?page={at - 1}", rel="prev") if at > 1 else None
    after = h("a", "After", href=f"{path}?page={at + 1}", rel="next") if at < pages else None
    return h("nav", before, f" {at} of {pages} ", after, aria_label="Rows", class_="pager")
