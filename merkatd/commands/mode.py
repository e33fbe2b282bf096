"""`merkatd mode`: show how much of what is decided is done, or order another mode."""

import argparse
from typing import Any

from merkatd.commands.asking import Ask, answered, user
from merkatd.commands.complaints import DONE
from merkatd.commands.configured import add_config
from merkatd.commands.verb import Verb

_DOES = {
    "dry": "nothing is done of what is decided",
    "shadow": "nothing is done; what another scheduler places is compared (`merkatd shadow`)",
    "ask": "VMs are placed, moved and suspended once you approve (`merkatd plan show`)",
    "on": "all that is decided is done",
}


def add_mode_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "mode",
        metavar="MODE",
        nargs="?",
        choices=(*_DOES, "configured"),
        help="dry, shadow, ask, on; or configured: what the configuration says",
    )
    add_config(parser)


def run_mode(arguments: argparse.Namespace) -> int:
    """Ask or tell the daemon."""

    def show(ask: Ask) -> int:
        print("\n".join(_lines(ask("mode", to=arguments.mode, who=user()), arguments.mode)))
        return DONE

    return answered("mode", arguments, show)


def _lines(answer: Any, wanted: str | None) -> list[str]:
    mode = str(answer["mode"])
    already = "" if wanted is None or answer["changed"] else " already"
    lines = [f"The mode is {mode}{already}: {_DOES.get(mode, mode)}."]
    if answer["ordered"] is not None and answer["configured"] != mode:
        lines.append(
            f"So it was ordered; configured is {answer['configured']}"
            " (`merkatd mode configured` takes the order back)."
        )
    if answer["most_moves"] is not None:
        lines.append(f"A quiet start: the next period moves {answer['most_moves']} VMs at most.")
    return lines


MODE = Verb(
    "mode",
    summary="show how much of what is decided is done, or change it",
    description="""\
`merkatd mode`: show how much of what is decided is done, or order another mode.

dry: nothing is done. shadow: nothing is done either, and `merkatd shadow` shows where another
scheduler placed VMs elsewhere. ask: VMs are placed, moved and suspended once you approve of the
plan (`merkatd plan show`); limits are set without asking. on: all is done.

An order holds from the next period on, also after a restart, until `merkatd mode configured`
takes it back.
""",
    add_arguments=add_mode_arguments,
    run=run_mode,
)
