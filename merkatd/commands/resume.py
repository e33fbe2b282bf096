"""`merkatd resume`: periods begin again, at the next full interval."""

import argparse

from merkatd.commands.asking import Ask, answered, user
from merkatd.commands.complaints import DONE
from merkatd.commands.configured import add_config

SUMMARY = "go on after a pause"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """Tell the daemon."""

    def show(ask: Ask) -> int:
        ask("resume", who=user())
        print("Going on: the next period begins at the next full interval.")
        return DONE

    return answered("resume", arguments, show)
