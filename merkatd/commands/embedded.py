"""`merkatd embedded`: an embedded cloud as a process of its own."""

import argparse

from merkatd.commands.private import keep_private
from merkatd.commands.reactor import asyncio_reactor
from merkatd.embedded import command

SUMMARY = "run an embedded OpenNebula-compatible cloud"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    command.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    keep_private()
    asyncio_reactor()
    return command.run(arguments)
