"""`merkatd pause`: no more periods begin; the one in hand is finished, and VMs run on."""

import argparse

from merkatd.commands.asking import Ask, answered, user
from merkatd.commands.complaints import DONE
from merkatd.commands.configured import add_config
from merkatd.commands.verb import Verb


def add_pause_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add_config(parser)


def run_pause(arguments: argparse.Namespace) -> int:
    """Tell the daemon."""

    def show(ask: Ask) -> int:
        new = ask("pause", who=user())
        print(f"{'Paused' if new else 'Paused already'}: no period begins until `merkatd resume`.")
        return DONE

    return answered("pause", arguments, show)


PAUSE = Verb(
    "pause",
    summary="begin no more periods until told to resume",
    description="""\
`merkatd pause`: no more periods begin; the one in hand is finished, and VMs run on.

What hosts were told stays in force and nothing is charged anew. A daemon that is started
again is still paused; so are all that share its database.
""",
    add_arguments=add_pause_arguments,
    run=run_pause,
)
