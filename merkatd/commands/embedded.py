"""`merkatd embedded`: an embedded cloud as a process of its own."""

import argparse

from merkatd.commands.private import keep_private
from merkatd.commands.programs import embedded_command
from merkatd.commands.reactor import asyncio_reactor
from merkatd.commands.verb import Verb


def add_embedded_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    embedded_command.add_arguments(parser)


def run_embedded(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    keep_private()
    asyncio_reactor()
    return embedded_command.run(arguments)


EMBEDDED = Verb(
    "embedded",
    summary="run an embedded OpenNebula-compatible cloud",
    description="""\
`merkatd embedded`: an embedded cloud as a process of its own.""",
    add_arguments=add_embedded_arguments,
    run=run_embedded,
)
