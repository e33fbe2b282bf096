"""The command `embedded`: an OpenNebula-compatible cloud in a process of its own."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from twisted.internet.defer import ensureDeferred
from twisted.internet.error import CannotListenError
from twisted.internet.task import LoopingCall

from merkatd.base.clock import asyncio_reactor
from merkatd.commands.terminal.command_parser import WRONG_WORDS, print_failure
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.words.ways_out import os_reason
from merkatd.daemon.interpreter import GarbageCollections
from merkatd.daemon.safe_files import make_new_files_private
from merkatd.embedded import cloud_file
from merkatd.embedded.cloud import EmbeddedCloud
from merkatd.embedded.cloud_file import clock_of, open_cloud
from merkatd.embedded.model.settings import HOST_START_S, HostSize
from merkatd.embedded.rpc_server import RpcServer, serve
from merkatd.embedded.state_file import SqliteStore, StateError

_LONGEST_START_S = 86_400
_REST_S = 60.0
"""Seconds between two checks whether a full garbage collection is due."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the embedded cloud."""
    parser.add_argument("--listen", default="127.0.0.1:2633", metavar="HOST:PORT",
                        help="address of the XML-RPC server; port 0 picks a free one")  # fmt: skip
    parser.add_argument("--hosts", type=int, default=8, help="number of hosts of a new cloud")
    parser.add_argument("--cpu", type=int, default=8, help="cores of each host")
    parser.add_argument("--memory", default="16GiB", help="memory of each host")
    parser.add_argument(
        "--file",
        type=Path,
        help="TOML file that describes a new cloud, instead of the options above",
    )
    parser.add_argument(
        "--password", default="opennebula", help="oneadmin's password in a new cloud"
    )
    parser.add_argument(
        "--state", type=Path, help="SQLite file in which the cloud survives restarts"
    )
    parser.add_argument(
        "--speed", type=float, default=1.0, help="simulated seconds per real second"
    )
    parser.add_argument(
        "--host-start",
        type=float,
        default=HOST_START_S,
        metavar="SECONDS",
        help="time that a host needs to start after it slept or lost its power",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers")


def run(arguments: argparse.Namespace) -> int:
    """Serve a cloud until SIGTERM or SIGINT; print its address once it accepts calls."""
    from twisted.internet import reactor as installed  # noqa: PLC0415 - it must be installed first

    reactor: Any = installed
    store = None
    try:
        host, port = _address(arguments.listen)
        if arguments.speed <= 0:
            _wrong(f"--speed must be above 0 (got {arguments.speed})")
        if not 0 <= arguments.host_start <= _LONGEST_START_S:
            _wrong(f"--host-start must be 0 to {_LONGEST_START_S} (got {arguments.host_start})")
        store = SqliteStore(arguments.state) if arguments.state else None
        cloud = _cloud(arguments, store, reactor)
        server = serve(cloud, reactor, host, port)
    except (cloud_file.CloudFileError, StateError, CannotListenError, OSError) as error:
        if store is not None:
            store.close()
        return print_failure("embedded", _reason(error), WRONG_WORDS)
    garbage = GarbageCollections()
    garbage.start()
    LoopingCall(garbage.after_period).start(_REST_S, now=False)
    reactor.addSystemEventTrigger("before", "shutdown", lambda: ensureDeferred(_end(server, cloud)))
    reactor.callWhenRunning(_announce, server.endpoint)
    reactor.run()
    return 0


def _reason(error: Exception) -> str:
    """Return what failed, why, and the way out."""
    if isinstance(error, CannotListenError):
        return os_reason(error.socketError, f"{error.interface}:{error.port}")
    return os_reason(error) if isinstance(error, OSError) else str(error)


async def _end(server: RpcServer, cloud: EmbeddedCloud) -> None:
    # Close the state file last: every answered call must be stored.
    await server.stop()
    cloud.close()


def _announce(endpoint: str) -> None:
    sys.stdout.write(f"{endpoint}\n")
    sys.stdout.flush()


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        _wrong(f"--listen must be HOST:PORT (got {text!r})")
    return host, int(port)


def _wrong(text: str) -> None:
    raise cloud_file.CloudFileError(text)


def _cloud(arguments: argparse.Namespace, store: SqliteStore | None, reactor: Any) -> EmbeddedCloud:
    size = HostSize(arguments.cpu * 100, cloud_file.memory_mib(arguments.memory))
    plan = (
        cloud_file.read(arguments.file)
        if arguments.file
        else cloud_file.CloudDescription(hosts=(cloud_file.HostGroup(arguments.hosts, size),))
    )
    clock = clock_of(arguments.speed, store, reactor)
    return open_cloud(
        clock,
        plan,
        arguments.password,
        arguments.seed,
        store,
        host_start_s=arguments.host_start,
    )


def add_embedded_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `embedded`."""
    add_arguments(parser)


def run_embedded(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    make_new_files_private()
    asyncio_reactor()
    return run(arguments)


EMBEDDED = Verb(
    "embedded",
    summary="run an embedded OpenNebula-compatible cloud",
    description="""\
`merkatd embedded`: run an embedded, OpenNebula-compatible cloud in a process of its own.

It prints its XML-RPC address. Besides OpenNebula's calls it has calls for administrators: faults
(`embedded.fault.add`), hosts and domains that fail and return (`embedded.domain.fail` and
`embedded.domain.repair` with a kind, `network`, `power` or `host`, and a name), hosts that sleep
and wake, and the progress of guests. docs/embedded.md describes them.""",
    add_arguments=add_embedded_arguments,
    run=run_embedded,
)
