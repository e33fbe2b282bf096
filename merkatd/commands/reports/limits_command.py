"""The command `limits`."""

import argparse

from merkatd.commands.ask_daemon import add_view, show_view
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, command_parser
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.texts.empty_texts import NO_LIMITS

LIMITS_TABLE = ScreenTable(
    "LIMITS",
    (
        Column("ID", "id", ColumnFormat.WHOLE, "OpenNebula's id"),
        Column("NAME", "name", ColumnFormat.TEXT, "the VM's name", least=8),
        Column("HOST", "host", ColumnFormat.TEXT, "its host", least=7),
        Column("CPU", "cpu", ColumnFormat.NUMBER, "its CPU share, in percent of a core"),
        Column("SET_CPU", "set_cpu", ColumnFormat.NUMBER, "its CPU quota; - without a quota"),
        Column("USED_CPU", "used_cpu", ColumnFormat.NUMBER, "CPU used since the latest period"),
        Column(
            "WEIGHT",
            "weight",
            ColumnFormat.WHOLE,
            "its CPU weight against its neighbours",
            default=False,
        ),
        Column("MEMORY", "memory", ColumnFormat.NUMBER, "its memory share, in MiB"),
        Column(
            "SET_MEMORY", "set_memory", ColumnFormat.NUMBER, "its balloon's target; - without one"
        ),
        Column(
            "HELD_MEMORY",
            "held_memory",
            ColumnFormat.NUMBER,
            "memory that it occupies",
            optional=True,
        ),
        Column(
            "USED_MEMORY",
            "used_memory",
            ColumnFormat.NUMBER,
            "memory that its guest uses, if known",
        ),
        Column(
            "NETWORK",
            "network",
            ColumnFormat.NUMBER,
            "its network share, in Mbit/s each way",
            sometimes=True,
        ),
        Column(
            "SET_NETWORK",
            "set_network",
            ColumnFormat.NUMBER,
            "the limit of its interfaces together; - if there is none or can be none",
            sometimes=True,
        ),
        Column("DISK", "disk", ColumnFormat.NUMBER, "its disk share, in MiB/s", sometimes=True),
        Column(
            "SET_DISK",
            "set_disk",
            ColumnFormat.NUMBER,
            "the limit of its disks together; - if there is none or can be none",
            sometimes=True,
        ),
        Column(
            "PINS", "pins", ColumnFormat.TEXT, "cores of each virtual CPU", least=6, optional=True
        ),
        Column("NOTE", "note", ColumnFormat.TEXT, "why a limit is not set", least=12, kept=True),
    ),
    NO_LIMITS,
)


def add_limits_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `limits`."""
    parser.add_argument(
        "of",
        metavar="VM|HOST",
        nargs="?",
        type=command_parser.reference,
        help="show only this VM, or the VMs of this host, by id or name",
    )
    add_view(parser, {"limits": LIMITS_TABLE})


def run_limits(arguments: argparse.Namespace) -> int:
    """Show the wanted and the enforced limits of VMs."""
    return show_view("limits", arguments, LIMITS_TABLE, lambda ask: ask("limits", of=arguments.of))


LIMITS = Verb(
    "limits",
    summary="show VMs' shares, the limits set on hosts, and the real use",
    description="""\
`merkatd limits`: show each VM's share, the limits that its host enforces, and its real use.

The daemon reads limits and use from the hosts at this moment; the shares are those of the latest
period. A number is read as a VM's id before a host's.
""",
    add_arguments=add_limits_arguments,
    run=run_limits,
)
