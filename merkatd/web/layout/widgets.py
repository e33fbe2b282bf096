"""The widgets of pages: numbers, times, links, bars, tables."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from merkatd.base import quantities
from merkatd.base.quantities import bounded, duration_text, utc
from merkatd.cluster.columns import NO_OWNER
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.service.market.step_history import StepRow
from merkatd.web.layout.html import Markup, Part, element


@dataclass(frozen=True, slots=True)
class HeadLink:
    """The link in a column's head that orders the table."""

    address: str
    direction: str | None
    """The present order by this column, as `aria-sort` names it; None for another order."""


HeadLinks: TypeAlias = Mapping[str, HeadLink]
"""By head."""
COLOURS = 8
_MIB_PER_GIB = 1024.0
_UNITS = {"network": "Mbit/s", "disk": "MiB/s"}
UNKNOWN = "\N{EN DASH}"
NONE = Markup(f'<span class="quiet">{UNKNOWN}</span>')


def credits_text(value: float | None) -> str:
    """Return an amount of credits as text."""
    return UNKNOWN if value is None else quantities.credits_text(value)


def plain_number(value: float | None) -> Part:
    """Return any number as short text."""
    if value is None:
        return NONE
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def amount(resource: str, value: float | None) -> str:
    """Return a share of a resource as text, for example 2.41 cores or 3.50 GiB."""
    if value is None:
        return UNKNOWN
    if resource == "cpu":
        return f"{value / UNITS_PER_CORE:.2f} cores"
    if resource == "memory":
        return f"{value / _MIB_PER_GIB:.2f} GiB"
    return f"{value:.1f} {_UNITS.get(resource, '')}".rstrip()


def count_text(number: int, what: str) -> str:
    """Return a number with its noun, for example 1 host or 2 hosts."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def percent(part: float | None) -> str:
    """Return a part of a whole in percent; only the whole is shown as 100%."""
    if part is None:
        return UNKNOWN
    return "100%" if part >= 1.0 else f"{min(max(round(100 * part), 0), 99)}%"


def since(at_s: float, now_s: float) -> str:
    """Return how long ago a time was, as text."""
    return f"{duration_text(max(now_s - at_s, 0.0))} ago"


def moment(at_s: float | None) -> Markup:
    """Return a date and time in UTC, with the zone."""
    if at_s is None:
        return NONE
    at = utc(at_s)
    machine = f"{at:%Y-%m-%dT%H:%M:%SZ}"
    return element("time", f"{at:%Y-%m-%d %H:%M:%S} UTC", datetime=machine)


def deadline(at_s: float | None, now_s: float) -> Markup:
    """Return the time until a deadline, or since it passed."""
    if at_s is None:
        return NONE
    at_s = bounded(at_s)
    at = utc(at_s)
    text = (
        f"in {duration_text(at_s - now_s)}"
        if at_s >= now_s
        else f"{duration_text(now_s - at_s)} ago"
    )
    return element(
        "time", text, datetime=f"{at:%Y-%m-%dT%H:%M:%SZ}", title=f"{at:%Y-%m-%d %H:%M:%S} UTC"
    )


def swatch(owner: int | None) -> Markup:
    """Return a tenant's colour, the same on every page."""
    shade = "none" if owner is None else str(owner % COLOURS)
    return element("span", class_=f"swatch t{shade}", aria_hidden="true")


def bar(part: float, tick: float | None = None, class_: str = "") -> Markup:
    """Return a bar that is filled to this part, with an optional tick at another part."""
    width = 100 * min(max(part, 0.0), 1.0)
    mark = None
    if tick is not None:
        at = min(max(100 * tick, 0.0), 99.0)
        mark = element("rect", x=f"{at:.1f}", y=0, width=1, height=10, class_="tick")
    return element(
        "svg",
        element("rect", x=0, y=2, width=100, height=6, class_="empty"),
        element("rect", x=0, y=2, width=f"{width:.1f}", height=6, class_="full"),
        mark,
        viewBox="0 0 100 10",
        preserveAspectRatio="none",
        class_=f"bar {class_}".rstrip(),
        aria_hidden="true",
        focusable="false",
    )


def link(kind: str, id_: int | None, words: str | None) -> Markup:
    """Return a link to the page of a host, VM, tenant, platform or period."""
    if id_ is None:
        return element("span", words) if words else NONE
    return element("a", words or str(id_), href=f"/{kind}/{id_}")


def tenant(owner: int, names: Mapping[int, str]) -> list[Part]:
    """Return a tenant's colour and name."""
    if owner == NO_OWNER:
        return [NONE]
    return [swatch(owner), link("tenants", owner, names.get(owner) or f"user {owner}")]


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[Part]],
    *,
    numbers: Sequence[int] = (),
    nothing: Part = "Nothing yet.",
    links: HeadLinks | None = None,
) -> Markup:
    """Return a table; `numbers` are the indices of columns with numbers.

    `links` order the table; `nothing` is shown instead of a table without rows.
    """
    return grouped_table(caption, heads, [(None, rows)], numbers, nothing, links or {})


def grouped_table(
    caption: str,
    heads: Sequence[str],
    groups: Iterable[tuple[Part, Iterable[Sequence[Part]]]],
    numbers: Sequence[int],
    nothing: Part,
    links: HeadLinks,
) -> Markup:
    """Return a table with groups of rows; only narrow pages show the titles of groups."""

    def kind(at: int) -> str | None:
        return "number" if at in numbers else None

    # A narrow page shows rows as blocks, which lose their table roles without these attributes.
    bodies = []
    for title, rows in groups:
        body = [
            element(
                "tr",
                [_cell(heads[at], kind(at), cell, at) for at, cell in enumerate(row)],
                role="row",
            )
            for row in rows
        ]
        if body and title is not None:
            about = element("th", title, colspan=len(heads), scope="rowgroup", role="rowheader")
            body.insert(0, element("tr", about, role="row", class_="group"))
        if body:
            bodies.append(element("tbody", body, role="rowgroup"))
    if not bodies:
        return element("p", nothing, class_="quiet")
    columns = [_head(head, kind(at), links.get(head)) for at, head in enumerate(heads)]
    table_element = element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", element("tr", columns, role="row"), role="rowgroup"),
        bodies,
        role="table",
    )
    return element(
        "div", table_element, class_="wide", role="group", aria_label=caption, tabindex="0"
    )


def _head(head: str, kind: str | None, order: HeadLink | None) -> Markup:
    words: Part = head
    if order is not None:
        words = element("a", head, href=order.address)
    direction = None if order is None else order.direction
    return element("th", words, scope="col", class_=kind, role="columnheader", aria_sort=direction)


def _cell(head: str, kind: str | None, value: Part, at: int) -> Markup:
    if at == 0:
        return element(
            "th",
            value,
            scope="row",
            class_=kind,
            role="rowheader",
            data_head=head if kind else None,
        )
    return element("td", value, class_=kind, data_head=head, role="cell")


def facts(rows: Iterable[tuple[str, Part]]) -> Markup:
    """Return a list of names with their values."""
    return element(
        "dl", [[element("dt", name), element("dd", value)] for name, value in rows], class_="facts"
    )


NO_DECISIONS = (
    "There are no decisions yet. The daemon places, moves or suspends a VM when it pays, and says"
    " here why."
)


def steps_table(
    rows: Sequence[StepRow],
    hosts: Mapping[str, int],
    caption: str = "Decisions",
    nothing: Part = NO_DECISIONS,
    links: HeadLinks | None = None,
) -> Markup:
    """Return a table of steps with their reasons and results, in the order of the rows.

    Narrow pages show the period and the time once for all its steps.
    """
    groups = [(period, list(steps)) for period, steps in groupby(rows, lambda row: row.period)]
    return grouped_table(
        caption,
        ("Period", "Time", "Step", "VM", "Host", "Reason", "Result"),
        [(_title(period, steps), [_step(row, hosts) for row in steps]) for period, steps in groups],
        (0,),
        nothing,
        links or {},
    )


def _title(period: int, steps: Sequence[StepRow]) -> list[Part]:
    where = link("periods", period, f"Period {period}")
    return [where, " at ", moment(steps[0].at_s), f": {count_text(len(steps), 'decision')}"]


def _step(row: StepRow, hosts: Mapping[str, int]) -> Sequence[Part]:
    return (
        link("periods", row.period, None),
        moment(row.at_s),
        row.kind,
        link("vms", row.vm, row.name or _numbered(row.vm)),
        _host_links(row, hosts),
        row.reason,
        _result(row),
    )


def _host_links(row: StepRow, hosts: Mapping[str, int]) -> Part:
    there = link("hosts", hosts.get(row.host), row.host) if row.host else NONE
    if not row.source:
        return there
    gone = link("hosts", hosts.get(row.source), row.source)
    return element("span", gone, " → ", there, class_="way")


def _result(row: StepRow) -> Part:
    bad = row.state in {"refused", "expired"}
    badge: Part = element("span", row.state, class_="badge bad" if bad else "badge")
    return [badge, " ", row.reply] if bad and row.reply else badge


def _numbered(vm: int | None) -> str | None:
    return None if vm is None else f"VM {vm}"
