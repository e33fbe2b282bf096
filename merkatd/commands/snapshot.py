"""`merkatd snapshot save`: keep what the latest decision was made from."""

import argparse
import sys
from pathlib import Path

from merkatd.cluster.snapshot import SnapshotError
from merkatd.cluster.snapshot_json import loads
from merkatd.cluster.snapshot_npz import to_npz
from merkatd.commands.asking import Ask, NotDoneError, answered
from merkatd.commands.complaints import DONE
from merkatd.commands.configured import add_config
from merkatd.commands.verb import Verb


def add_snapshot_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("action", metavar="ACTION", choices=("save",), help="save")
    parser.add_argument(
        "file",
        metavar="FILE",
        help="where to: the compact form where it ends in .npz, else JSON; - for standard output",
    )
    add_config(parser)


def run_snapshot(arguments: argparse.Namespace) -> int:
    """Ask, and write the file."""
    return answered("snapshot", arguments, lambda ask: _save(ask, arguments.file))


def _save(ask: Ask, name: str) -> int:
    text = ask("snapshot")
    try:
        snapshot = loads(text)
    except SnapshotError as error:
        raise NotDoneError(f"the daemon's snapshot can't be read: {error}") from None
    if name == "-":
        sys.stdout.write(text)
        return DONE
    path = Path(name)
    data = to_npz(snapshot) if path.suffix.lower() == ".npz" else text.encode()
    path.write_bytes(data)
    print(
        f"{name}: period {snapshot.period}, {len(snapshot.hosts)} hosts, {len(snapshot.vms)} VMs,"
        f" {len(data):,} bytes"
    )
    return DONE


SNAPSHOT = Verb(
    "snapshot",
    summary="keep what the latest decision was made from",
    description="""\
`merkatd snapshot save`: keep what the latest decision was made from.

`merkatd plan --snapshot FILE` decides from it again.
""",
    add_arguments=add_snapshot_arguments,
    run=run_snapshot,
)
