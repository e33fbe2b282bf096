"""The widgets of pages: numbers, times, links, bars, tables."""

from collections.abc import Iterable, Mapping, Sequence

from merkatd.base.quantities import bounded, utc
from merkatd.cluster.columns import NO_OWNER
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.service.market.step_history import StepRow
from merkatd.web.layout.html import Markup, Part, element

COLOURS = 8
_MIB_PER_GIB = 1024.0
_FEW = 0.1
"""The amount of credits below which three significant digits are shown."""
_UNITS = {"network": "Mbit/s", "disk": "MiB/s"}
_STEPS_S = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
UNKNOWN = "\N{EN DASH}"
NONE = Markup(f'<span class="quiet">{UNKNOWN}</span>')


def credits_text(value: float | None) -> str:
    """Return an amount of credits as text."""
    if value is None:
        return UNKNOWN
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    if abs(value) >= 1 or value == 0:
        return f"{value:.2f}"
    return f"{value:.3f}" if abs(value) >= _FEW else f"{value:.3g}"


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


def duration_text(seconds: float) -> str:
    """Return a duration as text, for example 2 h 5 min or 14 s."""
    left = bounded(abs(seconds))
    for at, (size, unit) in enumerate(_STEPS_S):
        if left < size and size > 1:
            continue
        count = int(left // size)
        if at + 1 < len(_STEPS_S) and count < 10:
            smaller, small_unit = _STEPS_S[at + 1]
            rest = int((left - count * size) // smaller)
            if rest:
                return f"{count} {unit} {rest} {small_unit}"
        return f"{count} {unit}"
    return "0 s"


def since(at_s: float, now_s: float) -> str:
    """Return how long ago a time was, as text."""
    return f"{duration_text(max(now_s - at_s, 0.0))} ago"


def moment(at_s: float | None) -> Markup:
    """Return a time of day in UTC, with the date as a tooltip."""
    if at_s is None:
        return NONE
    at = utc(at_s)
    machine = f"{at:%Y-%m-%dT%H:%M:%SZ}"
    return element("time", f"{at:%H:%M:%S}", datetime=machine, title=f"{at:%Y-%m-%d %H:%M:%S} UTC")


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
    nothing: str = "Nothing yet.",
) -> Markup:
    """Return a table; `numbers` are the indices of columns with numbers."""

    def kind(at: int) -> str | None:
        return "number" if at in numbers else None

    # A narrow page shows rows as blocks, which lose their table roles without these attributes.
    body = [
        element(
            "tr", [_cell(heads[at], kind(at), cell, at) for at, cell in enumerate(row)], role="row"
        )
        for row in rows
    ]
    if not body:
        return element("p", nothing, class_="quiet")
    columns = [
        element("th", head, scope="col", class_=kind(at), role="columnheader")
        for at, head in enumerate(heads)
    ]
    table_element = element(
        "table",
        element("caption", caption, class_="unseen"),
        element("thead", element("tr", columns, role="row"), role="rowgroup"),
        element("tbody", body, role="rowgroup"),
        role="table",
    )
    return element(
        "div", table_element, class_="wide", role="group", aria_label=caption, tabindex="0"
    )


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


def steps_table(
    rows: Sequence[StepRow], hosts: Mapping[str, int], caption: str = "Decisions"
) -> Markup:
    """Return a table of steps with their reasons and results, in the order of the rows."""
    return table(
        caption,
        ("Period", "Time", "Step", "VM", "Host", "Reason", "Result"),
        [
            (
                link("periods", row.period, None),
                moment(row.at_s),
                row.kind,
                link("vms", row.vm, row.name or _numbered(row.vm)),
                _host_links(row, hosts),
                row.reason,
                _result(row),
            )
            for row in rows
        ],
        numbers=(0,),
        nothing="There are no decisions yet.",
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
