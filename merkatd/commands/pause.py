"""`merkatd pause`: no more periods begin; the one in hand is finished, and VMs run on.

What hosts were told stays in force and nothing is charged anew. A daemon that is started
again is not paused.
"""

import argparse

from merkatd.commands.asking import Ask, answered
from merkatd.commands.complaints import DONE
from merkatd.commands.configured import add_config

SUMMARY = "begin no more periods until told to resume"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Tell the daemon."""

    def show(ask: Ask) -> int:
        ask("pause")
        print("Paused: no period begins until `merkatd resume`.")
        return DONE

    return answered("pause", arguments, show)
