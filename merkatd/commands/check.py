"""`merkatd check`: whether a configuration is right; every problem, not only the first."""

import argparse

from merkatd.commands.configured import INSTALLED, add_config, read_config

SUMMARY = "check a configuration"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add_config(parser)


def run(arguments: argparse.Namespace) -> int:
    """0 when the daemon would start with it."""
    config = read_config("check", arguments.config)
    if config is None:
        return 1
    chosen = arguments.config or (INSTALLED if INSTALLED.exists() else "all defaults")
    markets = ", ".join(f"{name} ({one.strategy})" for name, one in config.markets.items())
    print(f"{chosen}: right; cloud: {config.cloud.kind}; markets: {markets}")
    return 0
