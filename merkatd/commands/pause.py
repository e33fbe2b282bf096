"""`merkatd pause`: no more periods begin; the one in hand is finished, and VMs run on.

What hosts were told stays in force and nothing is charged anew. A daemon that is started
again is still paused; so are all that share its database.
"""

import argparse

from merkatd.commands.asking import Ask, answered, user
from merkatd.commands.complaints import DONE
from merkatd.commands.configured import add_config

SUMMARY = "begin no more periods until told to resume"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Tell the daemon."""

    def show(ask: Ask) -> int:
        new = ask("pause", who=user())
        print(f"{'Paused' if new else 'Paused already'}: no period begins until `merkatd resume`.")
        return DONE

    return answered("pause", arguments, show)
