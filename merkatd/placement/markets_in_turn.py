"""Decisions of all markets in turn, and what each depends on besides the snapshot.

A file with a snapshot and its `DecisionBasis` gives the same decision again, without a daemon.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from merkatd.cluster import Decision, Snapshot
from merkatd.cluster.orders import joined, joined_offers
from merkatd.cluster.plan import Step
from merkatd.cluster.snapshot import SnapshotError, view_of_market
from merkatd.placement.base.repeatable_random import repeatable_random
from merkatd.placement.changes.plan_changes import (
    NO_SWITCHES_HELD,
    joined_plan,
    moved_first,
    with_hosts_at_rest,
)
from merkatd.placement.changes.saved_vms import without_resumptions
from merkatd.placement.contract import StrategyEntry
from merkatd.placement.decision_check import checked_decision
from merkatd.placement.market.settlement import with_arrivals
from merkatd.placement.registry import STRATEGIES
from merkatd.placement.settings_json import (
    memory_from_json,
    memory_to_json,
    object_of,
    settings_from_json,
    settings_to_json,
)

Market = TypeVar("Market")

_WHERE = "decision"
"""The key of a file that holds the basis."""
_MOST_SEED = 2**63


@dataclass(frozen=True, slots=True, eq=False)
class MarketBasis:
    """The strategy of a market, with its settings and its memory before the decision."""

    name: str
    strategy: str
    settings: Any
    """In force, with the market's prices."""
    memory: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class DecisionBasis:
    """What a decision depends on besides the snapshot."""

    seed: int
    """The cloud's seed."""
    markets: tuple[MarketBasis, ...]
    """In the order of the snapshot's markets."""
    drawn: int | None = None
    """The period whose random numbers are drawn; None for the snapshot's."""

    def to_json(self) -> dict[str, Any]:
        """Return the basis as a JSON value."""
        return {
            "seed": self.seed,
            **({} if self.drawn is None else {"drawn": self.drawn}),
            "markets": [
                {
                    "market": market.name,
                    "strategy": market.strategy,
                    "version": STRATEGIES[market.strategy].version,
                    "settings": settings_to_json(market.settings),
                    "memory": memory_to_json(market.memory),
                }
                for market in self.markets
            ],
        }


def basis_from_json(given: Any, snapshot: Snapshot) -> DecisionBasis:
    """Return the basis of a snapshot's decision. Raise SnapshotError.

    The memory of another version of a strategy is left out.
    """
    table = object_of(given, _WHERE, "seed", "drawn", "markets")
    seed, rows = table.get("seed"), table.get("markets")
    if type(seed) is not int or not 0 <= seed < _MOST_SEED:
        raise SnapshotError(f"{_WHERE}.seed: must be a whole number from 0 (got {seed!r:.40})")
    drawn = table.get("drawn")
    if drawn is not None and (type(drawn) is not int or not 0 <= drawn < _MOST_SEED):
        raise SnapshotError(f"{_WHERE}.drawn: must be a whole number from 0 (got {drawn!r:.40})")
    names = list(snapshot.markets.name)
    if not isinstance(rows, list) or len(rows) != len(names):
        raise SnapshotError(f"{_WHERE}.markets: must have a row for each of {', '.join(names)}")
    markets = tuple(_market(row, f"{_WHERE}.markets[{at}]") for at, row in enumerate(rows))
    if [market.name for market in markets] != names:
        raise SnapshotError(f"{_WHERE}.markets: must be in the order {', '.join(names)}")
    return DecisionBasis(seed, markets, drawn)


def _market(given: Any, where: str) -> MarketBasis:
    row = object_of(given, where, "market", "strategy", "version", "settings", "memory")
    name = row.get("strategy")
    if name not in list(STRATEGIES):
        known = ", ".join(STRATEGIES)
        raise SnapshotError(f"{where}.strategy: must be one of {known} (got {name!r:.40})")
    entry = STRATEGIES[name]
    settings = settings_from_json(entry.settings, row.get("settings", {}), f"{where}.settings")
    memory = memory_from_json(row.get("memory", {}), f"{where}.memory")
    return MarketBasis(
        name=row.get("market", ""),
        strategy=entry.name,
        settings=settings,
        memory=memory if row.get("version") == entry.version else {},
    )


def decide_again(snapshot: Snapshot, given: DecisionBasis) -> Decision:
    """Return the decision of all markets' strategies. Raise WrongDecisionError."""

    def decide(seen: Snapshot, row: int, market: MarketBasis) -> Decision:
        drawn = seen.period if given.drawn is None else given.drawn
        random = repeatable_random(given.seed, drawn, market.name)
        entry = STRATEGIES[market.strategy]
        made = entry.decide(seen, market.settings, market.memory, random)
        return checked_decision(seen, row, made)

    parts = decide_in_turn(snapshot, given.markets, decide)
    decision = joined_decision([market.name for market in given.markets], parts)
    return with_possible_steps(
        snapshot, [STRATEGIES[market.strategy] for market in given.markets], decision
    )


def with_possible_steps(
    snapshot: Snapshot,
    strategies: Sequence[StrategyEntry],
    decision: Decision,
    proposed: Collection[int] = (),
    busy: AbstractSet[int] = frozenset(),
    held: Mapping[str, Mapping[int, str]] = NO_SWITCHES_HELD,
) -> Decision:
    """Return the decision without steps of strategies that can't be done now.

    These resume VMs that their owners keep saved, or switch hosts that must stay as they are. The
    daemon adds what no file has: VMs with a `proposed` step of a platform, and `busy` and `held`
    hosts, as in `with_hosts_at_rest`.
    """
    awake = without_resumptions(snapshot, strategies, decision.plan, proposed)
    changed = with_hosts_at_rest(snapshot, awake.plan, busy, held)
    return replace(
        decision,
        plan=changed.plan,
        reasons={**decision.reasons, **awake.reasons},
        left_hosts=changed.reasons,
    )


def decide_in_turn(
    snapshot: Snapshot,
    markets: Iterable[Market],
    decide: Callable[[Snapshot, int, Market], Decision],
) -> list[Decision]:
    """Return a decision for each market; `decide` gets its view of the cloud and its row.

    Each market sees the arrivals in the markets before it.
    """
    parts: list[Decision] = []
    for row, market in enumerate(markets):
        part = decide(view_of_market(snapshot, row), row, market)
        parts.append(replace(part, plan=moved_first(snapshot, part.plan)))
        snapshot = with_arrivals(snapshot, parts[-1].plan)
    return parts


def joined_decision(
    markets: Sequence[str], parts: Sequence[Decision], others: Iterable[Step] = ()
) -> Decision:
    """Return one decision for all markets, with further steps: at most one operation for a VM."""
    joint = joined_plan(*(part.plan for part in parts), others)
    return Decision(
        plan=joint.plan,
        allocations=np.sum([part.allocations for part in parts], axis=0),
        prices=np.stack([part.prices[row] for row, part in enumerate(parts)]),
        reasons={vm: why for part in parts for vm, why in part.reasons.items()} | joint.reasons,
        orders={order: its for part in parts for order, its in part.orders.items()},
        order_terms=joined([part.order_terms for part in parts if part.order_terms is not None]),
        goods_offers=joined_offers(
            [part.goods_offers for part in parts if part.goods_offers is not None]
        ),
        wishes=tuple(
            replace(wish, market=market)
            for market, part in zip(markets, parts, strict=True)
            for wish in part.wishes
        ),
        failed={market: why for part in parts for market, why in part.failed.items()},
        memory={market: part.memory for market, part in zip(markets, parts, strict=True)},
    )
