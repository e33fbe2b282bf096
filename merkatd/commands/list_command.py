"""The command `list` and its tables of hosts, VMs and applications."""

import argparse

from merkatd.commands.ask_daemon import add_view, show_view
from merkatd.commands.screens.hourly_rows import with_time_left
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.texts.empty_texts import NO_APPLICATIONS, NO_HOSTS, NO_VMS

GOODS = (("network", "network, in Mbit/s each way"), ("disk", "disks, in MiB/s"))
"""Goods that may be sold besides CPU and memory, with their description."""


def _of_a_host(good: str, what: str) -> tuple[Column, ...]:
    name, more = good.upper(), {"sometimes": True, "optional": True}
    return (
        Column(name, good, ColumnFormat.NUMBER, f"its {what}", **more),
        Column(
            f"GIVEN_{name}",
            f"given_{good}",
            ColumnFormat.NUMBER,
            "the shares of its VMs, added up",
            **more,
        ),
        Column(f"BIDS_{name}", f"bids_{good}", ColumnFormat.CREDITS, "all bids for it", **more),
    )


def _of_a_vm(good: str, what: str) -> tuple[Column, ...]:
    name, more = good.upper(), {"sometimes": True, "optional": True}
    return (
        Column(f"BID_{name}", f"bid_{good}", ColumnFormat.CREDITS, f"its bid for {good}", **more),
        Column(name, good, ColumnFormat.NUMBER, f"its share of the {what}", **more),
        Column(f"CAP_{name}", f"cap_{good}", ColumnFormat.NUMBER, "the most it can use", **more),
        Column(
            f"FLOOR_{name}",
            f"floor_{good}",
            ColumnFormat.NUMBER,
            "its floor: the least that it needs",
            default=False,
            sometimes=True,
        ),
    )


def _of_an_application(good: str, what: str) -> tuple[Column, ...]:
    name, more = good.upper(), {"sometimes": True, "optional": True}
    return (
        Column(
            f"BID_{name}",
            f"bid_{good}",
            ColumnFormat.CREDITS,
            f"the VMs' bids for {good}, added up",
            **more,
        ),
        Column(name, good, ColumnFormat.NUMBER, f"the VMs' shares of the {what}, added up", **more),
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
            "on; dsbl (disabled): takes no new VMs; drain (by order): is also emptied; off",
        ),
        Column(
            "MARKET",
            "market",
            ColumnFormat.TEXT,
            "the market it belongs to",
            least=6,
            optional=True,
        ),
        Column("VMS", "vms", ColumnFormat.WHOLE, "VMs on it, including VMs that are moving to it"),
        Column("CPU", "cpu", ColumnFormat.NUMBER, "its CPU, in percent of a core"),
        Column(
            "GIVEN_CPU", "given_cpu", ColumnFormat.NUMBER, "the CPU shares of its VMs, added up"
        ),
        Column(
            "BIDS_CPU",
            "bids_cpu",
            ColumnFormat.CREDITS,
            "all bids for its CPU, in credits a period",
        ),
        Column(
            "USED_CPU",
            "used_cpu",
            ColumnFormat.NUMBER,
            "CPU used, as last monitored",
            default=False,
        ),
        Column("MEMORY", "memory", ColumnFormat.NUMBER, "its memory, in MiB"),
        Column(
            "GIVEN_MEMORY",
            "given_memory",
            ColumnFormat.NUMBER,
            "the memory shares of its VMs, added up",
        ),
        Column(
            "BIDS_MEMORY",
            "bids_memory",
            ColumnFormat.CREDITS,
            "all bids for its memory",
            optional=True,
        ),
        Column(
            "USED_MEMORY",
            "used_memory",
            ColumnFormat.NUMBER,
            "memory used, as last monitored",
            default=False,
        ),
        *(column for good in GOODS for column in _of_a_host(*good)),
        Column(
            "NOTE",
            "note",
            ColumnFormat.TEXT,
            "a note for the administrator",
            least=10,
            kept=True,
        ),
    ),
    NO_HOSTS,
)
VMS = ScreenTable(
    "VM",
    (
        Column("ID", "id", ColumnFormat.WHOLE, "OpenNebula's id"),
        Column("NAME", "name", ColumnFormat.TEXT, "the VM's name", least=8),
        Column(
            "USER", "owner_name", ColumnFormat.TEXT, "the user that pays", least=6, optional=True
        ),
        Column("OWNER", "owner", ColumnFormat.WHOLE, "the id of the user that pays", default=False),
        Column("GROUP", "group", ColumnFormat.TEXT, "its group of users", least=6, optional=True),
        Column(
            "APPLICATION", "application", ColumnFormat.WHOLE, "the application's id", default=False
        ),
        Column(
            "STATE",
            "state",
            ColumnFormat.TEXT,
            "OpenNebula's state when the period started",
            least=7,
        ),
        Column(
            "HOST", "host", ColumnFormat.TEXT, "its host, or the host that it is moving to", least=7
        ),
        Column(
            "TIME",
            "running_s",
            ColumnFormat.DURATION,
            "how long its guest has run since its start or its last move",
            optional=True,
        ),
        Column("MARKET", "market", ColumnFormat.TEXT, "the market it bids in", default=False),
        Column("VCPUS", "vcpus", ColumnFormat.WHOLE, "its virtual CPUs", default=False),
        Column("BID_CPU", "bid_cpu", ColumnFormat.CREDITS, "its bid for CPU, in credits a period"),
        Column("CPU", "cpu", ColumnFormat.NUMBER, "its CPU share, in percent of a core"),
        Column("CAP_CPU", "cap_cpu", ColumnFormat.NUMBER, "the most CPU that it can use"),
        Column(
            "FLOOR_CPU",
            "floor_cpu",
            ColumnFormat.NUMBER,
            "its CPU floor: the least that it needs",
            default=False,
        ),
        Column(
            "FIRST_CPU",
            "first_cpu",
            ColumnFormat.NUMBER,
            "its CPU share if its market were one host",
            default=False,
        ),
        Column(
            "BID_MEMORY", "bid_memory", ColumnFormat.CREDITS, "its bid for memory", optional=True
        ),
        Column("MEMORY", "memory", ColumnFormat.NUMBER, "its memory share, in MiB"),
        Column(
            "CAP_MEMORY",
            "cap_memory",
            ColumnFormat.NUMBER,
            "the most memory that it can use",
            optional=True,
        ),
        Column(
            "FLOOR_MEMORY",
            "floor_memory",
            ColumnFormat.NUMBER,
            "its memory floor: the least that it needs",
            default=False,
        ),
        Column(
            "FIRST_MEMORY",
            "first_memory",
            ColumnFormat.NUMBER,
            "its memory share if its market were one host",
            default=False,
        ),
        Column(
            "HELD_MEMORY",
            "held_memory",
            ColumnFormat.NUMBER,
            "the memory that it occupied when last monitored",
            default=False,
        ),
        *(column for good in GOODS for column in _of_a_vm(*good)),
        Column(
            "RATE",
            "rate",
            ColumnFormat.CREDITS,
            "credits a period for each core that it uses, if its market charges by use",
            sometimes=True,
        ),
        Column(
            "COST",
            "cost",
            ColumnFormat.CREDITS,
            "credits that a whole period costs now; an upper bound if its market charges by use",
            kept=True,
        ),
        Column(
            "ERROR",
            "error",
            ColumnFormat.PART,
            "allocation error: the distance to its share if its market were one host (Eq. 2); 0"
            " for a VM that has all that it can use",
            optional=True,
        ),
        Column(
            "MESSAGE",
            "message",
            ColumnFormat.TEXT,
            "the message to its owner",
            least=20,
            kept=True,
        ),
    ),
    NO_VMS,
)
APPLICATIONS = ScreenTable(
    "APPLICATION",
    (
        Column(
            "APPLICATION",
            "application",
            ColumnFormat.WHOLE,
            "the number of the application's account; - for a tenant's VMs without an application",
            default=False,
        ),
        Column(
            "NAME",
            "name",
            ColumnFormat.TEXT,
            "the application's name; a platform's is NAME-ID, with the platform's id; - for a"
            " tenant's VMs without an application",
            least=6,
        ),
        Column("USER", "owner_name", ColumnFormat.TEXT, "its owner", least=6),
        Column("OWNER", "owner", ColumnFormat.WHOLE, "the owner's id", default=False),
        Column("VMS", "vms", ColumnFormat.WHOLE, "number of its VMs"),
        Column("RUNNING", "running", ColumnFormat.WHOLE, "number of running VMs"),
        Column("PENDING", "pending", ColumnFormat.WHOLE, "number of VMs that wait for a host"),
        Column(
            "BID_CPU",
            "bid_cpu",
            ColumnFormat.CREDITS,
            "the VMs' bids for CPU, added up",
            optional=True,
        ),
        Column(
            "CPU", "cpu", ColumnFormat.NUMBER, "the VMs' CPU shares, added up, in percent of a core"
        ),
        Column(
            "BID_MEMORY",
            "bid_memory",
            ColumnFormat.CREDITS,
            "the VMs' bids for memory, added up",
            optional=True,
        ),
        Column("MEMORY", "memory", ColumnFormat.NUMBER, "the VMs' memory shares, added up, in MiB"),
        *(column for good in GOODS for column in _of_an_application(*good)),
        Column(
            "COST",
            "cost",
            ColumnFormat.CREDITS,
            "credits that a whole period costs now",
            kept=True,
        ),
        Column(
            "BALANCE", "balance", ColumnFormat.CREDITS, "credits left to pay with", optional=True
        ),
        Column(
            "LASTS",
            "lasts",
            ColumnFormat.NUMBER,
            "number of periods that the balance lasts at this cost",
            default=False,
        ),
        Column(
            "TIME_LEFT",
            "lasts_s",
            ColumnFormat.DURATION,
            "how long the balance lasts at this cost",
            optional=True,
        ),
    ),
    NO_APPLICATIONS,
)


TABLES = {"hosts": HOSTS, "vms": VMS, "applications": APPLICATIONS}


def add_list_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `list`."""
    parser.add_argument("what", metavar="WHAT", choices=tuple(TABLES), help=", ".join(TABLES))
    add_view(parser, TABLES)


def run_list(arguments: argparse.Namespace) -> int:
    """Show the hosts, VMs or applications."""
    what: str = arguments.what
    if what == "applications":
        return show_view(
            "list", arguments, APPLICATIONS, lambda ask: with_time_left(ask, ask(what))
        )
    return show_view("list", arguments, TABLES[what], lambda ask: ask(what))


LIST = Verb(
    "list",
    summary="list hosts, VMs or applications",
    description="""\
`merkatd list`: list the hosts, VMs or applications, as of the latest period.""",
    add_arguments=add_list_arguments,
    run=run_list,
)
