"""`merkatd plan show|approve|refuse`: the plan that stands in mode ask, and the answer to it."""

import argparse
from collections.abc import Sequence
from typing import Any

from merkatd.commands.asking import Ask, NotDoneError, answered, user
from merkatd.commands.complaints import DONE
from merkatd.commands.output import rows_of
from merkatd.commands.table import Column, Kind, Table, to_text
from merkatd.commands.view import show_view

STANDING = Table(
    "PROPOSED",
    (
        Column("NUMBER", "number", Kind.WHOLE, "the step's number, for --skip"),
        Column("KIND", "kind", Kind.TEXT, "what would be done"),
        Column("VM", "vm", Kind.WHOLE, "the VM's id"),
        Column("NAME", "name", Kind.TEXT, "the VM's name", least=6),
        Column("FROM", "source", Kind.TEXT, "the host it would leave", least=6),
        Column("HOST", "host", Kind.TEXT, "the host it would go to", least=6),
        Column("SKIPPED", "skipped", Kind.TEXT, "whether it was left out", default=False),
        Column("BECAME", "became", Kind.TEXT, "what became of it", least=8, optional=True),
        Column("REASON", "reason", Kind.TEXT, "why", least=30),
    ),
)


def show(arguments: argparse.Namespace) -> int:
    """Show the newest plan, whatever became of it."""
    return show_view(
        "plan",
        arguments,
        STANDING,
        lambda ask: ask("standing_plan"),
        rows=lambda answer: answer["steps"],
        text=_text,
        whole=True,
    )


def answer(arguments: argparse.Namespace) -> int:
    """Approve of the plan that waits, or refuse it."""

    def give(ask: Ask) -> int:
        skip = arguments.skip or None
        if arguments.action == "refuse" and skip:
            raise NotDoneError("--skip: only with approve; a plan is refused as a whole")
        given = ask(f"{arguments.action}_plan", plan=arguments.plan, skip=skip, who=user())
        print("\n".join(_answered(given)))
        return DONE

    return answered("plan", arguments, give)


def _answered(plan: Any) -> list[str]:
    steps = rows_of(plan["steps"])
    if plan["state"] == "refused":
        return [f"Plan {plan['plan']} is refused: nothing of it is done, nor proposed again alone."]
    kept = [step for step in steps if not step["skipped"]]
    head = f"Plan {plan['plan']} is approved: {len(kept)} of {len(steps)} steps"
    steps_kept = [f"  {step['number']:3} {_words(step)}" for step in kept]
    return [f"{head}, each judged again before it is sent.", *steps_kept]


def _words(step: Any) -> str:
    where = "" if step["host"] is None else f" to {step['host']}"
    return f"{step['kind']} VM {step['vm']}{where}"


def _text(plan: Any, cells: int | None) -> Sequence[str]:
    by = "" if plan["who"] is None else f", answered by {plan['who']}"
    head = f"Plan {plan['plan']} of period {plan['period']} is {plan['state']}{by}"
    steps = rows_of(plan["steps"])
    return [head, *to_text(STANDING.default(), steps, cells)]
