"""`merkatd list`: the hosts, VMs or applications as the latest period found and served them."""

import argparse

from merkatd.commands.list_tables import APPLICATIONS, HOSTS, VMS
from merkatd.commands.verb import Verb
from merkatd.commands.view import add_view, show_view

TABLES = {"hosts": HOSTS, "vms": VMS, "applications": APPLICATIONS}


def add_list_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("what", metavar="WHAT", choices=tuple(TABLES), help=", ".join(TABLES))
    add_view(parser, TABLES)


def run_list(arguments: argparse.Namespace) -> int:
    """Ask, and print the rows."""
    what: str = arguments.what
    return show_view("list", arguments, TABLES[what], lambda ask: ask(what))


LIST = Verb(
    "list",
    summary="list hosts, VMs or applications",
    description="""\
`merkatd list`: the hosts, VMs or applications as the latest period found and served them.""",
    add_arguments=add_list_arguments,
    run=run_list,
)
