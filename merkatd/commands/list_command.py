"""`list`."""

import argparse

from merkatd.commands.ask_daemon import add_view, show_view
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable
from merkatd.commands.terminal.command_verb import Verb

GOODS = (("network", "network, in Mbit/s each way"), ("disk", "disks, in MiB/s"))
"""What may be sold besides CPU and memory."""


def _of_a_host(good: str, what: str) -> tuple[Column, ...]:
    name, more = good.upper(), {"sometimes": True, "optional": True}
    return (
        Column(name, good, ColumnFormat.NUMBER, f"its {what}", **more),
        Column(
            f"GIVEN_{name}", f"given_{good}", ColumnFormat.NUMBER, "what its VMs were given", **more
        ),
        Column(f"BIDS_{name}", f"bids_{good}", ColumnFormat.CREDITS, "all bids for it", **more),
    )


def _of_a_vm(good: str, what: str) -> tuple[Column, ...]:
    name, more = good.upper(), {"sometimes": True, "optional": True}
    return (
        Column(
            f"BID_{name}", f"bid_{good}", ColumnFormat.CREDITS, f"what it bids for {good}", **more
        ),
        Column(name, good, ColumnFormat.NUMBER, f"its share of the {what}", **more),
        Column(f"CAP_{name}", f"cap_{good}", ColumnFormat.NUMBER, "the most it can use", **more),
        Column(
            f"FLOOR_{name}",
            f"floor_{good}",
            ColumnFormat.NUMBER,
            "what it can't do without",
            default=False,
            sometimes=True,
        ),
    )


def _of_an_application(good: str, what: str) -> tuple[Column, ...]:
    name, more = good.upper(), {"sometimes": True, "optional": True}
    return (
        Column(
            f"BID_{name}", f"bid_{good}", ColumnFormat.CREDITS, f"their bids for {good}", **more
        ),
        Column(name, good, ColumnFormat.NUMBER, f"their shares of the {what}, together", **more),
    )


HOSTS = ScreenTable(
    "HOST",
    (
        Column("ID", "id", ColumnFormat.WHOLE, "OpenNebula's id"),
        Column("NAME", "name", ColumnFormat.TEXT, "the host's name", least=8),
        Column(
            "STAT",
            "state",
            ColumnFormat.TEXT,
            "on; dsbl (disabled) takes no new VMs; drain (by order) is emptied as well; off",
        ),
        Column(
            "MARKET",
            "market",
            ColumnFormat.TEXT,
            "the market it belongs to",
            least=6,
            optional=True,
        ),
        Column("VMS", "vms", ColumnFormat.WHOLE, "VMs there, those on their way included"),
        Column("CPU", "cpu", ColumnFormat.NUMBER, "its CPU, in percent of a core"),
        Column(
            "GIVEN_CPU", "given_cpu", ColumnFormat.NUMBER, "what its VMs were given of it together"
        ),
        Column(
            "BIDS_CPU", "bids_cpu", ColumnFormat.CREDITS, "all bids for it, in credits a period"
        ),
        Column("USED_CPU", "used_cpu", ColumnFormat.NUMBER, "as last monitored", default=False),
        Column("MEMORY", "memory", ColumnFormat.NUMBER, "its memory, in MiB"),
        Column(
            "GIVEN_MEMORY", "given_memory", ColumnFormat.NUMBER, "what its VMs were given of it"
        ),
        Column(
            "BIDS_MEMORY",
            "bids_memory",
            ColumnFormat.CREDITS,
            "all bids for its memory",
            optional=True,
        ),
        Column(
            "USED_MEMORY", "used_memory", ColumnFormat.NUMBER, "as last monitored", default=False
        ),
        *(column for good in GOODS for column in _of_a_host(*good)),
        Column(
            "NOTE",
            "note",
            ColumnFormat.TEXT,
            "what an administrator should know",
            least=10,
            optional=True,
        ),
    ),
)
VMS = ScreenTable(
    "VM",
    (
        Column("ID", "id", ColumnFormat.WHOLE, "OpenNebula's id"),
        Column("NAME", "name", ColumnFormat.TEXT, "the VM's name", least=8),
        Column(
            "USER", "owner_name", ColumnFormat.TEXT, "the user who pays", least=6, optional=True
        ),
        Column("OWNER", "owner", ColumnFormat.WHOLE, "the id of that user", default=False),
        Column(
            "APPLICATION", "application", ColumnFormat.WHOLE, "the application's id", default=False
        ),
        Column(
            "STATE", "state", ColumnFormat.TEXT, "OpenNebula's state when the period began", least=7
        ),
        Column("HOST", "host", ColumnFormat.TEXT, "where it is, or is being taken to", least=7),
        Column("MARKET", "market", ColumnFormat.TEXT, "the market it bids in", default=False),
        Column("VCPUS", "vcpus", ColumnFormat.WHOLE, "its virtual CPUs", default=False),
        Column(
            "BID_CPU", "bid_cpu", ColumnFormat.CREDITS, "what it bids for CPU, in credits a period"
        ),
        Column("CPU", "cpu", ColumnFormat.NUMBER, "its share, in percent of a core"),
        Column("CAP_CPU", "cap_cpu", ColumnFormat.NUMBER, "the most it can use"),
        Column(
            "FLOOR_CPU", "floor_cpu", ColumnFormat.NUMBER, "what it can't do without", default=False
        ),
        Column(
            "FIRST_CPU",
            "first_cpu",
            ColumnFormat.NUMBER,
            "its share if its market were one host",
            default=False,
        ),
        Column(
            "BID_MEMORY",
            "bid_memory",
            ColumnFormat.CREDITS,
            "what it bids for memory",
            optional=True,
        ),
        Column("MEMORY", "memory", ColumnFormat.NUMBER, "its share, in MiB"),
        Column(
            "CAP_MEMORY", "cap_memory", ColumnFormat.NUMBER, "the most it can use", optional=True
        ),
        Column(
            "FLOOR_MEMORY",
            "floor_memory",
            ColumnFormat.NUMBER,
            "what it can't do without",
            default=False,
        ),
        Column(
            "FIRST_MEMORY",
            "first_memory",
            ColumnFormat.NUMBER,
            "its share if its market were one host",
            default=False,
        ),
        Column(
            "HELD_MEMORY",
            "held_memory",
            ColumnFormat.NUMBER,
            "what it was seen to hold",
            default=False,
        ),
        *(column for good in GOODS for column in _of_a_vm(*good)),
        Column(
            "RATE",
            "rate",
            ColumnFormat.CREDITS,
            "credits for each core that it uses for a period, where use is charged",
            sometimes=True,
        ),
        Column(
            "COST",
            "cost",
            ColumnFormat.CREDITS,
            "credits that a whole period costs now, at most where use is charged",
        ),
        Column(
            "ERROR",
            "error",
            ColumnFormat.PART,
            "how far its share is from what the whole market as one host would give (Eq. 2)",
            optional=True,
        ),
        Column(
            "MESSAGE",
            "message",
            ColumnFormat.TEXT,
            "what its owner is told",
            least=20,
            optional=True,
        ),
    ),
)
APPLICATIONS = ScreenTable(
    "APPLICATION",
    (
        Column(
            "APPLICATION",
            "application",
            ColumnFormat.WHOLE,
            "its id; - for a tenant's VMs that have none",
        ),
        Column("NAME", "name", ColumnFormat.TEXT, "its name", least=6, optional=True),
        Column("USER", "owner_name", ColumnFormat.TEXT, "the user whose it is", least=6),
        Column("OWNER", "owner", ColumnFormat.WHOLE, "the id of that user", default=False),
        Column("VMS", "vms", ColumnFormat.WHOLE, "its VMs"),
        Column("RUNNING", "running", ColumnFormat.WHOLE, "how many of them run"),
        Column("PENDING", "pending", ColumnFormat.WHOLE, "how many wait for a host"),
        Column(
            "BID_CPU", "bid_cpu", ColumnFormat.CREDITS, "their bids for CPU together", optional=True
        ),
        Column("CPU", "cpu", ColumnFormat.NUMBER, "their shares together, in percent of a core"),
        Column(
            "BID_MEMORY", "bid_memory", ColumnFormat.CREDITS, "their bids for memory", optional=True
        ),
        Column("MEMORY", "memory", ColumnFormat.NUMBER, "their shares together, in MiB"),
        *(column for good in GOODS for column in _of_an_application(*good)),
        Column("COST", "cost", ColumnFormat.CREDITS, "credits that a whole period costs now"),
        Column(
            "BALANCE",
            "balance",
            ColumnFormat.CREDITS,
            "credits there are to pay with",
            optional=True,
        ),
        Column(
            "LASTS",
            "lasts",
            ColumnFormat.NUMBER,
            "periods that they last at this cost",
            optional=True,
        ),
    ),
)


TABLES = {"hosts": HOSTS, "vms": VMS, "applications": APPLICATIONS}


def add_list_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `list`."""
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
