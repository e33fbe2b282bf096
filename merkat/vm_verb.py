"""The command `vm`: a VM from a template, with a bid."""

import argparse
import json

from merkat.rpc_door import RPC_DOOR
from merkatd.commands.market_commands import RESOURCES
from merkatd.commands.terminal import command_parser
from merkatd.commands.terminal.command_parser import DONE, NOT_DONE, NotDoneError, print_failure
from merkatd.commands.terminal.command_verb import Verb
from onegroup.create_verb import template
from onegroup.verb import TemplateArgumentError


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="WHAT", choices=("create",), help="create")
    parser.add_argument(
        "template",
        metavar="FILE",
        help="the template: a file, - for standard input, or the id or the name of a template in"
        " OpenNebula",
    )
    parser.add_argument(
        "--name", metavar="NAME", type=command_parser.reference, help="the VM's name"
    )
    for good, more in zip(RESOURCES, ("", "", ", if sold", ", if sold"), strict=True):
        parser.add_argument(
            f"--{good}",
            metavar="X",
            type=command_parser.bid,
            help=f"bid X credits a period for {good}{more}",
        )
    parser.add_argument("-j", "--json", action="store_true", help="print the VM as JSON")
    RPC_DOOR.add_options(parser)


def _run(arguments: argparse.Namespace) -> int:
    given = {name: getattr(arguments, name) for name in RESOURCES}
    bid = {name: value for name, value in given.items() if value is not None}
    try:
        with RPC_DOOR.client(arguments) as merkat:
            vm = merkat.create_vm(**template(arguments.template), name=arguments.name, bid=bid)
    except (NotDoneError, TemplateArgumentError) as error:
        return print_failure("vm", f"{error}{_no_file(error)}", NOT_DONE, "merkat")
    if arguments.json:
        print(json.dumps({"id": int(vm.id), "name": str(vm.name)}, indent=2))
    else:
        print(f"ID: {int(vm.id)}")
    return DONE


def _no_file(error: Exception) -> str:
    """Return that no file has the name of an unknown template either."""
    return ", and no file has this name" if "no template of yours" in str(error) else ""


VM = Verb(
    "vm",
    "create a VM from a template, with a bid",
    """\
`merkat vm create FILE --cpu X --memory Y`: create a VM of yours that bids X credits a period for
CPU and Y for memory.

FILE is a VM template in OpenNebula's syntax, - for standard input, or the id or the name of a
template in OpenNebula. OpenNebula creates the VM with your rights and quotas. Without a bid, the
bid in the template applies, or the market's default. The command prints the VM's id; the next
period places the VM. `merkat explain ID` says what it gets and why.
""",
    _add_arguments,
    _run,
)
