"""`merkatd limits`: what each VM should have, what its host enforces, and what it really uses."""

import argparse

from merkatd.commands import words
from merkatd.commands.table import Column, Kind, Table
from merkatd.commands.verb import Verb
from merkatd.commands.view import add_view, show_view

TABLE = Table(
    "LIMITS",
    (
        Column("ID", "id", Kind.WHOLE, "OpenNebula's id"),
        Column("NAME", "name", Kind.TEXT, "the VM's name", least=8),
        Column("HOST", "host", Kind.TEXT, "where it is", least=7),
        Column("CPU", "cpu", Kind.NUMBER, "its share, in percent of a core"),
        Column("SET_CPU", "set_cpu", Kind.NUMBER, "what its quota lets it use; -: no quota"),
        Column("USED_CPU", "used_cpu", Kind.NUMBER, "what it used since the latest period"),
        Column("WEIGHT", "weight", Kind.WHOLE, "against its neighbours", default=False),
        Column("MEMORY", "memory", Kind.NUMBER, "its share, in MiB"),
        Column("SET_MEMORY", "set_memory", Kind.NUMBER, "what its balloon was told; -: nothing"),
        Column("HELD_MEMORY", "held_memory", Kind.NUMBER, "what it holds", optional=True),
        Column("USED_MEMORY", "used_memory", Kind.NUMBER, "what it uses of that, if it tells"),
        Column("NETWORK", "network", Kind.NUMBER, "its share, in Mbit/s each way", sometimes=True),
        Column(
            "SET_NETWORK",
            "set_network",
            Kind.NUMBER,
            "what its interfaces may send together; -: anything, or they can't be limited",
            sometimes=True,
        ),
        Column("DISK", "disk", Kind.NUMBER, "its share, in MiB/s", sometimes=True),
        Column(
            "SET_DISK",
            "set_disk",
            Kind.NUMBER,
            "what its disks may do together; -: anything, or they can't be limited",
            sometimes=True,
        ),
        Column("PINS", "pins", Kind.TEXT, "cores of each virtual CPU", least=6, optional=True),
        Column("NOTE", "note", Kind.TEXT, "why something is left alone", least=12, optional=True),
    ),
)


def add_limits_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "of",
        metavar="VM|HOST",
        nargs="?",
        type=words.reference,
        help="this VM, or the VMs of this host, by id or name",
    )
    add_view(parser, {"limits": TABLE})


def run_limits(arguments: argparse.Namespace) -> int:
    """Ask, and print the rows."""
    return show_view("limits", arguments, TABLE, lambda ask: ask("limits", of=arguments.of))


LIMITS = Verb(
    "limits",
    summary="show the limits of VMs: wanted, set and used",
    description="""\
`merkatd limits`: what each VM should have, what its host enforces, and what it really uses.

What is set and used is asked of the hosts at this moment; what is wanted is of the latest
period. A number names a VM before a host.
""",
    add_arguments=add_limits_arguments,
    run=run_limits,
)
