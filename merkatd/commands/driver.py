"""`merkatd driver`: write the scheduler driver that OpenNebula runs from 7.0 on."""

import argparse
import shutil
from pathlib import Path

import merkatd.opennebula.driver
from merkatd.commands.complaints import DONE, NOT_DONE, complain, one_line
from merkatd.commands.configured import add_config, read_config
from merkatd.commands.verb import Verb

_FILES = {"place": 0o755, "optimize": 0o755, "ask.py": 0o644}


def add_driver_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument(
        "directory", metavar="DIRECTORY", type=Path, help="where the driver is written to"
    )
    add_config(parser)


def run_driver(arguments: argparse.Namespace) -> int:
    """Copy the scripts, and say beside them where the daemon is."""
    config = read_config("driver", arguments.config)
    if config is None:
        return NOT_DONE
    directory: Path = arguments.directory
    scripts = Path(merkatd.opennebula.driver.__file__).parent / "remotes"
    settings = f"SOCKET={config.driver_socket.absolute()}\nDEADLINE={config.driver.deadline_s:g}\n"
    try:
        directory.mkdir(exist_ok=True)
        for name, mode in _FILES.items():
            shutil.copyfile(scripts / name, directory / name)
            (directory / name).chmod(mode)
        (directory / "merkat.conf").write_text(settings)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        return complain("driver", f"{directory}: {why}")
    socket = config.driver_socket.absolute()
    print(one_line(f"{directory}: place and optimize ask the daemon at {socket}"))
    return DONE


DRIVER = Verb(
    "driver",
    summary="write the scheduler driver for OpenNebula 7",
    description="""\
`merkatd driver`: write the scheduler driver that OpenNebula runs from 7.0 on.

DIRECTORY is remotes/scheduler/merkat, below OpenNebula's /var/lib/one. The driver asks the
daemon on the socket of the configuration; where the daemon acts by itself (mode daemon), or is
away, the answer is that nothing is to be done. Files of that directory are written anew.
""",
    add_arguments=add_driver_arguments,
    run=run_driver,
)
