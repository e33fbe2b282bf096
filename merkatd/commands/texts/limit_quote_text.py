"""The text of a limit order's quote: the limit that starts it now, and the odds of limits."""

from collections.abc import Iterator, Sequence
from typing import Any

from merkatd.base.quantities import credits_text, duration_text
from merkatd.commands.terminal.screen_text import wrapped
from merkatd.commands.terminal.table_columns import Column, ColumnFormat, ScreenTable
from merkatd.commands.terminal.table_formats import to_text

LIMIT_QUOTE_TABLE = ScreenTable(
    "LIMIT",
    (
        Column("LIMIT", "limit", ColumnFormat.CREDITS, "the limit, in credits a period"),
        Column(
            "RAN",
            "part",
            ColumnFormat.PERCENT,
            "the part of the recorded past in which the VMs would have run",
        ),
        Column(
            "COST",
            "cost",
            ColumnFormat.CREDITS,
            "the average cost of a period in which they would have run",
            kept=True,
        ),
        Column(
            "STOPS",
            "stops_per_day",
            ColumnFormat.NUMBER,
            "how often a day they would have been suspended",
        ),
        Column(
            "IN_TIME",
            "chance",
            ColumnFormat.PERCENT,
            "the chance that they run for --work until the deadline",
            sometimes=True,
        ),
    ),
)
_GOODS = (
    ("cpu", "% CPU"),
    ("memory", "MiB"),
    ("network", "Mbit/s"),
    ("disk", "MiB/s of disk"),
)
_FEW = 10
"""The most VMs that a sentence names."""


def limit_quote_lines(quoted: Any, cells: int | None) -> Sequence[str]:
    """Return the lines of a quote."""
    lines: list[str] = []
    for text in _texts(quoted):
        lines += wrapped(text, cells)
    if not quoted["odds"]:
        return lines
    columns = [
        column
        for column in LIMIT_QUOTE_TABLE.default()
        if not column.sometimes or any(row["chance"] is not None for row in quoted["odds"])
    ]
    return [*lines, *to_text(columns, quoted["odds"], cells)]


def platform_quote_lines(quoted: Any, cells: int | None) -> Sequence[str]:
    """Return the lines of a platform's quote."""
    if quoted["limit"] is None:
        stated = "The platform would state no limit now"
    else:
        stated = f"The platform would state a limit of {credits_text(quoted['limit'])} now"
    if quoted["takes"]:
        stated = f"{stated}: {quoted['takes']}"
    lines = list(wrapped(f"{stated}.", cells))
    return [*lines, *limit_quote_lines({**quoted, "vms": []}, cells)]


def _texts(quoted: Any) -> Iterator[str]:
    vms, needed = quoted["vms"], quoted["limit_to_start"]
    who = f"VM{'' if len(vms) == 1 else 's'} {', '.join(map(str, vms))}"
    if not vms or len(vms) > _FEW:
        who = f"{len(vms):,} VMs" if vms else "New VMs"
    goods = ", ".join(
        f"{quoted[name]:,.6g} {unit}" for name, unit in _GOODS if quoted.get(name) is not None
    )
    if needed is None:
        yield f"{who} ({goods}): no limit would start them together now."
    else:
        starts = "would start" if len(vms) == 1 else "would start together"
        yield (
            f"{who} ({goods}) {starts} now with a limit of {credits_text(needed)} credits a period."
        )
    if quoted["why"]:
        yield f"Too little is known: {quoted['why']}."
    elif quoted["windows"] is not None:
        yield (
            f"The recorded past is {quoted['windows']:.3g} times as long as the time to the"
            " deadline."
        )
    if quoted["odds"]:
        asked = ""
        if quoted["within_s"] is not None and not quoted["why"]:
            asked = (
                f", and {duration_text(quoted['work_s'])} of work in the next"
                f" {duration_text(quoted['within_s'])}"
            )
        yield f"The last {duration_text(quoted['history_s'])}{asked}:"
