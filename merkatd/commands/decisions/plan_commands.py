"""The command `plan`: the plan of the next period, of a saved snapshot, and in mode ask."""

import argparse
from collections.abc import Sequence
from typing import Any

from merkatd.base.quantities import credits_text
from merkatd.commands.ask_daemon import Ask, add_view, ask_daemon, show_view, user
from merkatd.commands.decisions.saved_snapshots import decided_again
from merkatd.commands.programs.strategy_files import (
    StrategyFileError,
    names_or_files,
    strategy_of,
)
from merkatd.commands.screens.hourly_rows import interval_of
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser, to_text
from merkatd.commands.terminal.command_parser import DONE, NotDoneError
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.terminal.output import ConflictingArgumentsError, rows_of
from merkatd.commands.texts.plan_text import plan_lines
from merkatd.placement import STRATEGIES
from merkatd.protocol.control_messages import ON_HOSTS

STANDING = ScreenTable(
    "PROPOSED",
    (
        Column("NUMBER", "number", ColumnFormat.WHOLE, "the step's number, for --skip"),
        Column("KIND", "kind", ColumnFormat.TEXT, "the kind of step"),
        Column("VM", "vm", ColumnFormat.WHOLE, "the VM's id; none for a step on a host"),
        Column("NAME", "name", ColumnFormat.TEXT, "the VM's name", least=6),
        Column("FROM", "source", ColumnFormat.TEXT, "the host it would leave", least=6),
        Column(
            "HOST", "host", ColumnFormat.TEXT, "the host it would go to, or of the step", least=6
        ),
        Column(
            "SKIPPED", "skipped", ColumnFormat.TEXT, "whether the step is skipped", default=False
        ),
        Column(
            "GAIN",
            "gain",
            ColumnFormat.CREDITS,
            "the gain of a migration, in credits",
            sometimes=True,
        ),
        Column(
            "COST",
            "cost",
            ColumnFormat.CREDITS,
            "the cost of a deployed VM, in credits a period",
            kept=True,
        ),
        Column("BECAME", "became", ColumnFormat.TEXT, "the step's result", least=8, optional=True),
        Column("REASON", "reason", ColumnFormat.TEXT, "the reason", least=30, kept=True),
    ),
)


def show_standing_plan(arguments: argparse.Namespace) -> int:
    """Show the newest plan, in whichever state it is."""
    return show_view(
        "plan",
        arguments,
        STANDING,
        lambda ask: _of_hosts(ask("standing_plan")),
        rows=lambda answer: answer["steps"],
        text=_text,
        whole=True,
    )


def answer_standing_plan(arguments: argparse.Namespace) -> int:
    """Approve or refuse the plan that waits."""

    def answer(ask: Ask) -> int:
        skip = arguments.skip or None
        if arguments.action == "refuse" and skip:
            raise NotDoneError(
                "--skip can be used only with approve; refuse applies to the whole plan"
            )
        plan = _of_hosts(
            ask(f"{arguments.action}_plan", plan=arguments.plan, skip=skip, who=user())
        )
        print("\n".join(_answered(plan)))
        return DONE

    return ask_daemon("plan", arguments, answer)


def reverse_plan(arguments: argparse.Namespace) -> int:
    """Propose a plan that undoes an executed one."""

    def reverse(ask: Ask) -> int:
        plan = ask("reverse_plan", plan=arguments.executed, who=user())
        print("\n".join(_reversed(plan)))
        return DONE

    if arguments.skip or arguments.plan is not None:
        raise ConflictingArgumentsError("--skip and --plan can be used only with an answer")
    return ask_daemon("plan", arguments, reverse)


def _reversed(plan: Any) -> list[str]:
    steps, left_out = rows_of(plan["steps"]), rows_of(plan["left_out"])
    lines = [f"Plan {plan['plan']} undoes plan {plan['reverses']} and waits for an approval:"]
    lines += [f"  {step['number']:3} {_step_text(step)}" for step in steps]
    if left_out:
        lines.append("It leaves out:")
        lines += [
            f"  {left['kind']}{_of_what(left)} (step {left['number']}): {left['reason']}"
            for left in left_out
        ]
    return lines


def _of_what(left: Any) -> str:
    return " of a host" if left["kind"] in ON_HOSTS else f" of VM {left['vm']}"


def _of_hosts(plan: Any) -> Any:
    """Return the plan with no VM in steps on hosts."""
    steps = [
        {**step, "vm": None} if step["kind"] in ON_HOSTS else step
        for step in rows_of(plan["steps"])
    ]
    return {**plan, "steps": steps}


def _answered(plan: Any) -> list[str]:
    steps = rows_of(plan["steps"])
    if plan["state"] == "refused":
        return [f"Plan {plan['plan']} is refused: no step of it is done, or proposed again alone."]
    kept = [step for step in steps if not step["skipped"]]
    head = f"Plan {plan['plan']} is approved: {len(kept)} of {len(steps)} steps"
    steps_kept = [f"  {step['number']:3} {_step_text(step)}" for step in kept]
    return [f"{head}, each checked again before it is sent.", *steps_kept]


def _step_text(step: Any) -> str:
    if step["vm"] is None:
        return f"{step['kind']} host {step['host']}"
    where = "" if step["host"] is None else f" to {step['host']}"
    return f"{step['kind']} VM {step['vm']}{where}"


def _text(plan: Any, cells: int | None) -> Sequence[str]:
    by = "" if plan["who"] is None else f", answered by {plan['who']}"
    head = f"Plan {plan['plan']} of period {plan['period']} is {plan['state']}{by}"
    undoes = "" if plan["reverses"] is None else f"; it undoes plan {plan['reverses']}"
    steps = rows_of(plan["steps"])
    return [
        head + undoes,
        *to_text(STANDING.default(), steps, cells),
        *(_shortfall_text(market) for market in rows_of(plan["shortfalls"])),
    ]


def _shortfall_text(market: Any) -> str:
    before, after = credits_text(market["before"]), credits_text(market["after"])
    return f"Market {market['market']}: shortfall {before} before the plan, {after} after it"


PLAN_TABLE = ScreenTable(
    "STEP",
    (
        Column("KIND", "kind", ColumnFormat.TEXT, "the kind of step"),
        Column("VM", "vm", ColumnFormat.WHOLE, "the VM's id; none for a step on a host"),
        Column("NAME", "name", ColumnFormat.TEXT, "the VM's name", least=6),
        Column("FROM", "source", ColumnFormat.TEXT, "the host it would leave", least=6),
        Column(
            "HOST", "host", ColumnFormat.TEXT, "the host it would go to, or of the step", least=6
        ),
        Column(
            "GAIN",
            "gain",
            ColumnFormat.CREDITS,
            "the gain of a migration, in credits",
            optional=True,
        ),
        Column(
            "COST",
            "cost",
            ColumnFormat.CREDITS,
            "the cost of a deployed VM, in credits a period",
            kept=True,
        ),
        Column(
            "RATE",
            "rate",
            ColumnFormat.CREDITS,
            "credits a period for each core that it uses, if its market charges by use; COST is"
            " then a maximum",
            sometimes=True,
        ),
        Column(
            "MOVES",
            "moves_mib",
            ColumnFormat.NUMBER,
            "MiB that a migration transfers",
            optional=True,
        ),
        Column("REASON", "reason", ColumnFormat.TEXT, "the reason", least=40, kept=True),
        Column("ID", "id", ColumnFormat.TEXT, "the step's id", default=False),
        Column(
            "AFTER", "after", ColumnFormat.LIST, "the steps that must be done first", default=False
        ),
    ),
)


def add_plan_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `plan`."""
    parser.add_argument(
        "action",
        metavar="ACTION",
        nargs="?",
        choices=("show", "approve", "refuse", "reverse"),
        help="show, approve or refuse the plan that waits in mode ask; reverse an executed plan",
    )
    parser.add_argument(
        "executed",
        metavar="PLAN",
        nargs="?",
        type=command_parser.count,
        help="with reverse: the number of an executed plan (default: the newest)",
    )
    parser.add_argument(
        "--plan",
        metavar="N",
        type=command_parser.count,
        help="with approve and refuse: only if plan N is the one that waits",
    )
    parser.add_argument(
        "--skip",
        metavar="N",
        type=command_parser.count,
        nargs="+",
        default=[],
        help="with approve: skip the steps with these numbers",
    )
    parser.add_argument(
        "--snapshot",
        metavar="FILE",
        help="decide from this snapshot instead, JSON or the compact format (.npz); - reads"
        " standard input",
    )
    parser.add_argument(
        "--strategy",
        metavar="NAME|FILE.py",
        choices=names_or_files(),
        help="with --snapshot, this strategy in all markets: a file of Python with a new one, or "
        + "; ".join(f"{entry.name}: {entry.summary}" for entry in STRATEGIES.values()),
    )
    parser.add_argument(
        "--rows",
        metavar="N",
        type=command_parser.whole,
        default=20,
        help="list the N VMs with the largest error (default: 20)",
    )
    add_view(parser, {"plan": PLAN_TABLE, "show": STANDING})


def run_plan(arguments: argparse.Namespace) -> int:
    """Show what would be done now, or show or answer the plan that waits."""
    if arguments.executed is not None and arguments.action != "reverse":
        raise ConflictingArgumentsError("PLAN can be given only with reverse")
    if arguments.action == "reverse":
        return reverse_plan(arguments)
    if arguments.action == "show":
        return show_standing_plan(arguments)
    if arguments.action is not None:
        return answer_standing_plan(arguments)
    return show_view(
        "plan",
        arguments,
        PLAN_TABLE,
        lambda ask: _of_hosts(_plan(ask, arguments)),
        rows=lambda answer: answer["steps"],
        text=lambda answer, cells: plan_lines(answer, arguments.rows, cells),
        whole=True,
    )


def _plan(ask: Ask, arguments: argparse.Namespace) -> Any:
    if arguments.snapshot is None:
        if arguments.strategy is not None:
            raise ConflictingArgumentsError(
                "--strategy can be used only with --snapshot; the daemon's is configured"
            )
        return {**ask("plan"), "interval_s": interval_of(ask)}
    try:
        strategy = None if arguments.strategy is None else strategy_of(arguments.strategy)
    except StrategyFileError as error:
        raise NotDoneError(str(error)) from None
    return decided_again(arguments.snapshot, strategy)


PLAN = Verb(
    "plan",
    summary="show what would be done now, and why; answer the plan that waits",
    description="""\
`merkatd plan`: show what would be done now, why, and the share of each VM. Nothing is done.

Without --snapshot, the running daemon reads its cloud and decides as in its next period, but stores
and sends nothing. With --snapshot, the strategies decide from a file; no daemon is needed. From a
file of `merkatd snapshot save` they decide as in the daemon: the same strategies, with their
settings, memories and random numbers. With --strategy, or from a file without these, one strategy
decides all markets with its default settings.

In mode ask (`merkatd mode`) a plan waits for your answer: `merkatd plan show` shows it, `merkatd
plan approve` carries it out and checks each step again before it is sent, and `merkatd plan refuse`
drops it. The plan waits until a period decides something else.

`merkatd plan reverse` proposes a plan that migrates the VMs of an executed plan back, and waits for
your answer. It names each step that it leaves out, with the reason: VMs that are gone or elsewhere
by now, hosts that take none, and all steps that are no migrations.
""",
    add_arguments=add_plan_arguments,
    run=run_plan,
)
