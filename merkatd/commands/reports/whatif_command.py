"""The command `whatif`: the plan and the prices of a changed cloud."""

import argparse
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from merkatd.base.hourly_prices import price_text
from merkatd.commands.ask_daemon import add_view, show_view
from merkatd.commands.screens.hourly_rows import interval_of
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import rows_of
from merkatd.commands.terminal.screen_text import plain, wrapped
from merkatd.commands.terminal.table_columns import column_text, shortened
from merkatd.commands.texts.plan_text import step_line


def _now_and_then(name: str, kind: ColumnFormat, what: str, **options: Any) -> tuple[Column, ...]:
    return (
        Column(f"{name}_NOW", f"{name.lower()}_now", kind, f"{what} after the plan now", **options),
        Column(
            f"{name}_THEN",
            f"{name.lower()}_then",
            kind,
            f"{what} after the plan of the changed cloud",
            **options,
        ),
    )


WHATIF_TABLE = ScreenTable(
    "WHATIF",
    (
        Column("ID", "id", ColumnFormat.WHOLE, "the VM's id"),
        Column("NAME", "name", ColumnFormat.TEXT, "the VM's name", least=6),
        *_now_and_then("HOST", ColumnFormat.TEXT, "its host", least=6),
        *_now_and_then("CPU", ColumnFormat.NUMBER, "its CPU, in percent of a core,"),
        *_now_and_then("MEMORY", ColumnFormat.NUMBER, "its memory in MiB", optional=True),
        *_now_and_then("NETWORK", ColumnFormat.NUMBER, "its network in Mbit/s", sometimes=True),
        *_now_and_then("DISK", ColumnFormat.NUMBER, "its disk in MiB/s", sometimes=True),
        *_now_and_then("COST", ColumnFormat.CREDITS, "the credits that it costs a period"),
    ),
)


def _budget(text: str) -> tuple[str, float]:
    """Return a tenant and a factor of its budget."""
    tenant, _, factor = text.rpartition("=")
    try:
        value = float(factor) if len(factor) <= 40 else math.nan
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1e6:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: expected a tenant and a factor from 0 to 1e+06, like ann=2"
        )
    return command_parser.reference(tenant), value


def add_whatif_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `whatif`."""
    parser.add_argument(
        "--without",
        metavar="HOST",
        type=command_parser.reference,
        action="append",
        default=[],
        help="a host less: this one, by id or name; can be repeated",
    )
    parser.add_argument(
        "--more",
        metavar="HOST",
        type=command_parser.reference,
        action="append",
        default=[],
        help="a host more, empty and with the size and attributes of this one; can be repeated",
    )
    parser.add_argument(
        "--budget",
        metavar="TENANT=FACTOR",
        type=_budget,
        action="append",
        default=[],
        help="credits, bids, limit orders and spending rates of this tenant times the factor;"
        " can be repeated",
    )
    add_view(parser, {"whatif": WHATIF_TABLE}, follow=False)


def run_whatif(arguments: argparse.Namespace) -> int:
    """Show the plan and the prices of a changed cloud."""
    return show_view(
        "whatif",
        arguments,
        WHATIF_TABLE,
        lambda ask: {
            **ask(
                "what_if",
                without=arguments.without,
                more=arguments.more,
                budgets=dict(arguments.budget),
            ),
            "interval_s": interval_of(ask),
        },
        rows=lambda answer: answer["vms"],
        text=_whatif_text,
        whole=True,
    )


def _whatif_text(answer: Any, cells: int | None) -> Sequence[str]:
    lines = [line for text in _head(answer) for line in wrapped(plain(text), cells, "", "  ")]
    lines.append("")
    for price in rows_of(answer["prices"]):
        lines += wrapped(_price_line(price, answer["interval_s"]), cells, "", "  ")
    steps = rows_of(answer["then"]["steps"])
    if steps:
        lines += ["", "Steps of the changed cloud's first period:"]
        for step in steps:
            lines += wrapped(plain(step_line(step)), cells, "  ", " " * 11)
    changed = [vm for vm in rows_of(answer["vms"]) if _differs(vm)]
    if changed:
        lines += ["", "VMs with another host, share or cost:"]
        lines += to_text(column_text(WHATIF_TABLE.default(), changed), changed, cells)
    return lines


def _head(answer: Any) -> Iterator[str]:
    changes = [f"without {host}" for host in answer["without"]]
    changes += [f"with one more host, {host}" for host in answer["more"]]
    changes += [
        f"with {factor:g} times the budget of {tenant}"
        for tenant, factor in answer["budgets"].items()
    ]
    counts = [Counter(step["kind"] for step in answer[plan]["steps"]) for plan in ("now", "then")]
    now, then = (
        ", ".join(f"{count} {kind}" for kind, count in sorted(steps.items())) or "no step"
        for steps in counts
    )
    yield f"The cloud {', '.join(changes)}: {then} in the first period; without the change: {now}."
    waits = [_placed(answer["vms"], moment) for moment in ("now", "then")]
    yield f"VMs without a host after it: {waits[1]}; without the change: {waits[0]}."
    yield "This is an answer of the daemon's own strategies; nothing is done or stored."


def _placed(vms: Sequence[Mapping[str, Any]], moment: str) -> int:
    return sum(vm[f"host_{moment}"] is None for vm in vms)


def _price_line(price: Mapping[str, Any], interval_s: float) -> str:
    what = plain(f"Price of {price['resource']} in market {price['market']}")
    now, then = (price_text(price[when], price["resource"], interval_s) for when in ("now", "then"))
    return f"{what}: {now} now, {then} then{_change(price)}"


def _change(price: Mapping[str, Any]) -> str:
    if not price["now"] or price["then"] is None:
        return ""
    return f" ({100 * (price['then'] / price['now'] - 1):+.1f} %)"


def _differs(vm: Mapping[str, Any]) -> bool:
    return any(
        _rounded(value) != _rounded(vm.get(name.replace("_now", "_then")))
        for name, value in vm.items()
        if name.endswith("_now")
    )


def _rounded(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


WHATIF = Verb(
    "whatif",
    summary="show the plan and the prices with other hosts or budgets",
    description="""\
`merkatd whatif`: show the plan and the prices of the cloud with a host less, a host more, or other
budgets.

The daemon's own strategies decide on the changed cloud as in a period that starts now; nothing is
done or stored, and the strategies remember nothing of it. A host less is emptied like a drained
host. A host more is empty, and takes the VMs that the named one may take. The plan is that of one
period: moves above a period's limit follow in later periods.

With --budget, all bids, limit orders and spending rates of the tenant are multiplied, too: with
twice the credits it can bid twice as much for as long. Bids that controllers of its platforms would
choose are not known.
""",
    add_arguments=add_whatif_arguments,
    run=run_whatif,
)
