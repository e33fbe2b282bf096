"""The command `snapshot`, and decisions from its files."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from merkatd.api.values.plan_rows import plan_row
from merkatd.cluster import Decision, Snapshot
from merkatd.cluster.snapshot import SnapshotError, view_of_market
from merkatd.cluster.snapshot_json import loads_with_decision
from merkatd.cluster.snapshot_npz import from_npz_with_decision, to_npz
from merkatd.commands.ask_daemon import Ask, add_door, ask_daemon
from merkatd.commands.terminal.command_parser import DONE, NotDoneError
from merkatd.commands.terminal.command_verb import Verb
from merkatd.commands.words.ways_out import os_reason
from merkatd.market.price import charges
from merkatd.placement import strategy_named
from merkatd.placement.contract import Pricing
from merkatd.placement.markets_in_turn import (
    DecisionBasis,
    MarketBasis,
    basis_from_json,
    decide_again,
)
from merkatd.placement.registry import DEFAULT, warm_up
from merkatd.placement.snapshot_needs import UnfilledNeedError, require_needs
from merkatd.service.market.plans import PlanCosts, preview_of


def decided_again(file: str, strategy: str | None) -> dict[str, Any]:
    """Return the decision from a file, as in the JSON output of `plan`.

    `strategy` replaces the strategies of the file. Raise NotDoneError.
    """
    try:
        snapshot, stored = _read(file)
        if strategy is None and stored is not None:
            return decided(snapshot, basis_from_json(stored, snapshot))
        return decided(snapshot, basis_of(snapshot, strategy or DEFAULT))
    except (OSError, SnapshotError, UnfilledNeedError, ValueError) as error:
        why = os_reason(error, file) if isinstance(error, OSError) else f"{file}: {error}"
        raise NotDoneError(why) from None


def basis_of(snapshot: Snapshot, name: str) -> DecisionBasis:
    """Return the basis with this strategy in all markets, and its default settings."""
    defaults = strategy_named(name).defaults
    return DecisionBasis(
        seed=0,
        markets=tuple(
            MarketBasis(name=market, strategy=name, settings=defaults)
            for market in snapshot.markets.name
        ),
    )


def decided(snapshot: Snapshot, basis: DecisionBasis) -> dict[str, Any]:
    """Return the decision as in the JSON output of `plan`. Raise UnfilledNeedError."""
    entries = [strategy_named(market.strategy) for market in basis.markets]
    for row, entry in enumerate(entries):
        require_needs(entry, view_of_market(snapshot, row))
    for entry in {entry.name: entry for entry in entries}.values():
        warm_up(entry)
    begin = time.perf_counter()
    decision = decide_again(snapshot, basis)
    took_ms = (time.perf_counter() - begin) * 1e3
    # A strategy that charges by use has no cost here: a snapshot lacks the number of VMs that
    # share a rate.
    pricings = [
        None if entry.by_use else getattr(market.settings, "pricing", None)
        for entry, market in zip(entries, basis.markets, strict=True)
    ]
    costs = _at_prices(snapshot, decision, pricings)
    name = "+".join(dict.fromkeys(entry.name for entry in entries))
    return plan_row(
        preview_of(snapshot, decision, decision.plan, name, took_ms, decision.reasons, costs)
    )


def _at_prices(
    snapshot: Snapshot, decision: Decision, pricings: Sequence[Pricing | None]
) -> PlanCosts:
    """Return the costs of VMs at the prices of their markets; 0 for a VM of no market.

    The costs in a market without a pricing are unknown.
    """
    vms = snapshot.vms
    nothing = np.zeros((1, len(snapshot.resources)))
    prices = np.append(decision.prices, nothing, axis=0)
    reserve = [
        nothing[0] if pricing is None else pricing.reserve_prices(snapshot.resources)
        for pricing in pricings
    ]
    owed = charges(
        vms.bid,
        decision.allocations,
        prices[vms.market],
        1.0,
        floors=vms.floor,
        reserve=np.stack([*reserve, nothing[0]])[vms.market],
    ).sum(axis=1)
    unknown = np.array([*(pricing is None for pricing in pricings), False])[vms.market]
    return PlanCosts(np.where(unknown, np.nan, owed), np.full(len(vms), np.nan))


def _read(name: str) -> tuple[Snapshot, Any]:
    data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    if data.startswith(b"PK"):
        return from_npz_with_decision(data)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise SnapshotError(
            f"the file is neither JSON in UTF-8 nor a compact snapshot: {error}"
        ) from None
    if not text.lstrip().startswith("{"):
        raise SnapshotError(
            "this is not a snapshot, which is a JSON object; `merkatd snapshot save FILE` writes"
            " one, and a configuration belongs to --config"
        )
    return loads_with_decision(text)


def add_snapshot_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `snapshot`."""
    parser.add_argument("action", metavar="ACTION", choices=("save",), help="save")
    parser.add_argument(
        "file",
        metavar="FILE",
        help="the file to write: the compact format if it ends in .npz, else JSON; - writes JSON to"
        " standard output",
    )
    add_door(parser)


def run_snapshot(arguments: argparse.Namespace) -> int:
    """Save the latest snapshot to a file."""
    return ask_daemon("snapshot", arguments, lambda ask: _save(ask, arguments.file))


def _save(ask: Ask, name: str) -> int:
    text = ask("snapshot")
    try:
        snapshot, decision = loads_with_decision(text)
    except SnapshotError as error:
        raise NotDoneError(f"the daemon's snapshot is invalid: {error}") from None
    if name == "-":
        sys.stdout.write(text)
        return DONE
    path = Path(name)
    data = to_npz(snapshot, decision) if path.suffix.lower() == ".npz" else text.encode()
    # The seed is secret; a file that exists keeps its mode.
    with open(path, "wb", opener=_private) as file:
        file.write(data)
    print(
        f"{name}: period {snapshot.period}, {len(snapshot.hosts)} hosts, {len(snapshot.vms)} VMs,"
        f" {len(data):,} bytes"
    )
    return DONE


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


SNAPSHOT = Verb(
    "snapshot",
    summary="save the input of the latest decision",
    description="""\
`merkatd snapshot save`: save the input of the latest decision to a file.

The file has the cloud as the strategies saw it, and for each market the strategy, its settings, its
memory and the seed of its random numbers. So `merkatd plan --snapshot FILE` decides the same again,
anywhere. The seed is secret: a tenant that knows it can predict the decisions of strategies that
draw.
""",
    add_arguments=add_snapshot_arguments,
    run=run_snapshot,
)
