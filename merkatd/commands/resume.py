"""`merkatd resume`: periods begin again, at the next full interval."""

import argparse

from merkatd.commands.asking import Ask, answered, user
from merkatd.commands.complaints import DONE
from merkatd.commands.configured import add_config
from merkatd.commands.verb import Verb


def add_resume_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add_config(parser)


def run_resume(arguments: argparse.Namespace) -> int:
    """Tell the daemon."""

    def show(ask: Ask) -> int:
        ask("resume", who=user())
        print("Going on: the next period begins at the next full interval.")
        return DONE

    return answered("resume", arguments, show)


RESUME = Verb(
    "resume",
    summary="go on after a pause",
    description="""\
`merkatd resume`: periods begin again, at the next full interval.""",
    add_arguments=add_resume_arguments,
    run=run_resume,
)
