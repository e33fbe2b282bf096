"""Commands that set Merkat up: `check`, `driver`."""

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import merkatd.opennebula.driver
from merkatd.commands.socket_door import INSTALLED, add_config, read_config
from merkatd.commands.terminal.command_parser import DONE, NOT_DONE, one_line, print_failure
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.words.ways_out import os_reason
from merkatd.config.configuration import Config
from merkatd.config.process_sections import CloudKind, CloudMode, HypervisorKind
from merkatd.embedded.model.records import FIRST_CLUSTER
from merkatd.embedded.state_file import StateError, stored_clusters
from merkatd.opennebula.preflight.advice import (
    AdviceInput,
    ClusterFacts,
    Finding,
    Level,
    MarketNeed,
    findings,
    market_findings,
)
from merkatd.opennebula.preflight.inquiry import CallRefusedError, calling, inquire
from merkatd.placement.snapshot_needs import HOST_ATTRIBUTES


def add_check_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `check`."""
    parser.add_argument(
        "--offline",
        action="store_true",
        help="check only the file, not the cloud",
    )
    add_config(parser)


def run_check(arguments: argparse.Namespace) -> int:
    """Check the configuration and the cloud; return 0 if the daemon would start and work."""
    config = read_config("check", arguments.config)
    if config is None:
        return NOT_DONE
    chosen = arguments.config or (INSTALLED if INSTALLED.exists() else "all defaults")
    markets = ", ".join(f"{name} ({market.strategy})" for name, market in config.markets.items())
    print(f"{chosen}: valid; cloud: {config.cloud.kind}; markets: {markets}")
    if arguments.offline:
        return DONE
    wish = _wish_of(config)
    if config.cloud.kind is CloudKind.OPENNEBULA:
        return _check_cloud(config, wish)
    try:
        return _print_findings(market_findings(_embedded_clusters(config), wish))
    except StateError as error:
        return print_failure("check", str(error))


def _wish_of(config: Config) -> AdviceInput:
    return AdviceInput(
        driver_mode=config.cloud.mode is CloudMode.DRIVER,
        simulated_hosts=config.hypervisor.kind is HypervisorKind.EMBEDDED,
        markets={
            market.name: None
            if market.has_the_rest
            else frozenset[int | str](market.clusters or ()) | (market.cluster_names or frozenset())
            for market in config.priced_markets()
        },
        needs=[
            MarketNeed(
                market=market.name,
                strategy=market.strategy,
                part=str(need),
                attributes=HOST_ATTRIBUTES[need],
            )
            for market in config.priced_markets()
            for need in sorted(market.entry.needs & HOST_ATTRIBUTES.keys())
        ],
    )


def _embedded_clusters(config: Config) -> list[ClusterFacts]:
    """Return the clusters of the daemon's embedded cloud; before its first start it has one."""
    state = config.state_directory / "cloud.db"
    if not state.exists():
        return [ClusterFacts(id=0, name=FIRST_CLUSTER, hosts=config.cloud.hosts)]
    return [
        ClusterFacts(
            id=cluster.id,
            name=cluster.name,
            hosts=len(hosts),
            attributes=frozenset(cluster.template.names()).union(
                *(host.template.names() for host in hosts)
            ),
        )
        for cluster, hosts in stored_clusters(state)
    ]


def _check_cloud(config: Config, wish: AdviceInput) -> int:
    try:
        session = config.auth_file.read_text().strip()
        limit_s, authorities = config.cloud.call_limit_s, config.authorities
        with calling(config.endpoint, session, limit_s, authorities) as call:
            results = findings(inquire(call), wish)
    except CallRefusedError as error:
        return print_failure("check", f"{config.endpoint}: {error}")
    except OSError as error:
        way = "" if error.filename else _NO_SERVER
        return print_failure("check", os_reason(error, error.filename or config.endpoint) + way)
    return _print_findings(results)


_NO_SERVER = (
    "; check that OpenNebula runs there (systemctl status opennebula), and `cloud.endpoint`"
)


def _print_findings(results: Sequence[Finding]) -> int:
    for finding in results:
        if finding.level is Level.ERROR:
            print_failure("check", finding.text)
        else:
            print(f"{finding.level}: {finding.text}")
    return NOT_DONE if any(finding.level is Level.ERROR for finding in results) else DONE


CHECK = Verb(
    "check",
    summary="check a configuration and its cloud",
    description="""\
`merkatd check`: check a configuration, and the cloud that it names.

The command reports every problem, not only the first. On every cloud it looks up the clusters that
markets name, and the attributes of hosts that a market's strategy needs. On an OpenNebula server it
also checks the version, the mode that fits it, other schedulers that balance there, and the rights
of the login. Errors lead to exit code 1, warnings do not.
""",
    add_arguments=add_check_arguments,
    run=run_check,
)


_FILES = {"place": 0o755, "optimize": 0o755, "ask.py": 0o644}


def add_driver_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `driver`."""
    parser.add_argument(
        "directory",
        metavar="DIRECTORY",
        type=Path,
        help="the directory in which to write the driver",
    )
    add_config(parser)


def run_driver(arguments: argparse.Namespace) -> int:
    """Copy the driver's scripts, and write the daemon's socket to a file beside them."""
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
    except OSError as error:
        return print_failure("driver", os_reason(error, directory))
    except ValueError as error:
        return print_failure("driver", f"{directory}: {error}")
    socket = config.driver_socket.absolute()
    print(one_line(f"{directory}: place and optimize ask the daemon at {socket}"))
    return DONE


DRIVER = Verb(
    "driver",
    summary="write the scheduler driver for OpenNebula 7",
    description="""\
`merkatd driver`: write the scheduler driver that OpenNebula runs since version 7.0.

DIRECTORY is remotes/scheduler/merkat, below OpenNebula's /var/lib/one. The driver asks the daemon
on the driver socket of the configuration. If the daemon acts by itself (mode daemon) or is not
running, the driver answers with an empty plan. Existing files are overwritten.
""",
    add_arguments=add_driver_arguments,
    run=run_driver,
)
