"""`merkatd plan`: what would be done now, why, and what everybody would get; nothing is done."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from merkatd.cluster import Snapshot
from merkatd.cluster.snapshot import SnapshotError
from merkatd.cluster.snapshot_json import loads
from merkatd.cluster.snapshot_npz import from_npz
from merkatd.commands import plan_standing, words
from merkatd.commands.asking import Ask, NotDoneError
from merkatd.commands.output import WordsError
from merkatd.commands.plan_text import plan_lines
from merkatd.commands.table import Column, Kind, Table
from merkatd.commands.verb import Verb
from merkatd.commands.view import add_view, show_view
from merkatd.placement import STRATEGIES, strategy_named
from merkatd.placement.registry import DEFAULT, warm_up
from merkatd.service.market.plans import Costs, at_price, plan_value

TABLE = Table(
    "STEP",
    (
        Column("KIND", "kind", Kind.TEXT, "what would be done"),
        Column("VM", "vm", Kind.WHOLE, "the VM's id"),
        Column("NAME", "name", Kind.TEXT, "the VM's name", least=6),
        Column("FROM", "source", Kind.TEXT, "the host it would leave", least=6),
        Column("HOST", "host", Kind.TEXT, "the host it would go to", least=6),
        Column("GAIN", "gain", Kind.CREDITS, "what a migration is worth", optional=True),
        Column("COST", "cost", Kind.CREDITS, "credits a period that a deployed VM would cost"),
        Column(
            "RATE",
            "rate",
            Kind.CREDITS,
            "credits for each core that it uses, where use is charged and COST is the most",
            sometimes=True,
        ),
        Column("MOVES", "moves_mib", Kind.NUMBER, "MiB that a migration carries", optional=True),
        Column("REASON", "reason", Kind.TEXT, "why", least=40),
        Column("ID", "id", Kind.TEXT, "the step's id", default=False),
        Column("AFTER", "after", Kind.LIST, "the steps that must come first", default=False),
    ),
)


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "action",
        metavar="ACTION",
        nargs="?",
        choices=("show", "approve", "refuse"),
        help="show the plan that waits in mode ask, approve of it, or refuse it",
    )
    parser.add_argument(
        "--plan",
        metavar="N",
        type=words.count,
        help="with approve and refuse: only if this is the plan that waits",
    )
    parser.add_argument(
        "--skip",
        metavar="N",
        type=words.count,
        nargs="+",
        default=[],
        help="with approve: the steps with these numbers are not done",
    )
    parser.add_argument(
        "--snapshot",
        metavar="FILE",
        help="decide from this cloud instead, JSON or the compact form (.npz); - reads standard"
        " input",
    )
    parser.add_argument(
        "--strategy",
        metavar="NAME",
        choices=tuple(STRATEGIES),
        help="with --snapshot: "
        + "; ".join(f"{entry.name}: {entry.summary}" for entry in STRATEGIES.values()),
    )
    parser.add_argument(
        "--rows",
        metavar="N",
        type=words.whole,
        default=20,
        help="how many VMs to list, those with the largest error first (default: 20)",
    )
    add_view(parser, {"plan": TABLE, "show": plan_standing.STANDING})


def run_plan(arguments: argparse.Namespace) -> int:
    """Decide, or let the daemon decide, and print; or answer the plan that waits."""
    if arguments.action == "show":
        return plan_standing.show(arguments)
    if arguments.action is not None:
        return plan_standing.answer(arguments)
    return show_view(
        "plan",
        arguments,
        TABLE,
        lambda ask: _plan(ask, arguments),
        rows=lambda answer: answer["steps"],
        text=lambda answer, cells: plan_lines(answer, arguments.rows, cells),
        whole=True,
    )


def _plan(ask: Ask, arguments: argparse.Namespace) -> Any:
    if arguments.snapshot is None:
        if arguments.strategy is not None:
            raise WordsError("--strategy: only with --snapshot; the daemon's own is configured")
        return ask("plan")
    try:
        snapshot = _read(arguments.snapshot)
    except (OSError, SnapshotError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise NotDoneError(f"{arguments.snapshot}: {reason}") from None
    return decided(snapshot, arguments.strategy or DEFAULT)


def decided(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """The strategy's decision with its default settings, as JSON has it."""
    entry = strategy_named(name)
    warm_up(entry)
    begin = time.perf_counter()
    decision = entry.decide(snapshot, np.random.default_rng(snapshot.period))
    took_ms = (time.perf_counter() - begin) * 1e3
    # Where use is charged, a snapshot does not say over how many VMs a rate is spread.
    unknown = np.full(len(snapshot.vms), np.nan)
    if entry.by_use:
        costs = Costs(unknown, unknown)
    else:
        costs = at_price(snapshot, decision, entry.settings.pricing)
    return plan_value(snapshot, decision, decision.plan, name, took_ms, decision.reasons, costs)


def _read(name: str) -> Snapshot:
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    if data.startswith(b"PK"):
        return from_npz(data)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise SnapshotError(f"neither JSON in UTF-8 nor a compact snapshot: {error}") from None
    return loads(text)


PLAN = Verb(
    "plan",
    summary="show what would be done with a cloud, and why",
    description="""\
`merkatd plan`: what would be done now, why, and what everybody would get; nothing is done.

Without --snapshot the running daemon looks at its cloud and decides as its next period
would, but stores and sends nothing. With --snapshot a strategy decides from a file, and no
daemon is needed.

In mode ask (`merkatd mode`) a plan waits for your answer: `merkatd plan show` shows it,
`merkatd plan approve` has it carried out, each step judged again before it is sent, and
`merkatd plan refuse` has it dropped. It stands until something else would be done.
""",
    add_arguments=add_plan_arguments,
    run=run_plan,
)
