"""The service of strategies: what each declares, its settings by market, what markets lack."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from merkatd.base.quantities import key_of, unit_of
from merkatd.cluster import Snapshot
from merkatd.cluster.snapshot import view_of_market
from merkatd.market.market_view import market_view
from merkatd.placement.contract import PARAMETER, Need, StrategyEntry, StrategyParameter
from merkatd.placement.registry import STRATEGIES
from merkatd.placement.setting_meanings import docs_of
from merkatd.placement.snapshot_needs import ATTRIBUTES, is_filled
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.callers import Caller, require_admin

_EXAMPLE_VMS = 1_000
"""The number of VMs for which limits are shown before the first period, and without a market."""
_OF_MARKETS = "pricing"
"""The field of settings that belongs to the market."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategySetting:
    """A setting of a strategy; values are texts as in the configuration."""

    name: str
    """The name of the field."""
    key: str
    """The key in the configuration."""
    unit: str
    """The unit in words; empty for a plain number."""
    meaning: str
    least: str | None
    """The least value, None without a range."""
    most: str | None
    tunable: bool
    """Whether a tuner may change it."""
    default: str
    values: Mapping[str, str]
    """The present value by market, for the markets that run the strategy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyNeed:
    """A part of the snapshot that a strategy needs."""

    name: str
    source: str
    """Where the part comes from."""
    filled: bool | None
    """Whether all markets that run the strategy fill it, or all markets if none runs it; None
    before the first period."""
    lacking: Sequence[str]
    """The names of these markets that do not fill it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyMoves:
    """The limits on migrations that a strategy declares, with the values in a market."""

    market: str | None
    """A market that runs the strategy; None for the strategy's defaults, if no market runs it."""
    vms: int
    """The number of VMs to which `most` applies: those of the market in the latest period."""
    most: int | None
    """The most migrations in a period; None without a limit."""
    hold: str | None
    """The time for which a migrated VM stays; None without one."""
    words: str
    """The same in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyView:
    """What a strategy declares, and its use in this cloud."""

    name: str
    summary: str
    allocates: str
    charges: str
    version: int
    """The version of its memory."""
    markets: Sequence[str]
    """The markets that run it."""
    needs: Sequence[StrategyNeed]
    moves: Sequence[StrategyMoves]
    """Its limits on migrations, by market."""
    moves_by: Sequence[str]
    """The keys of the settings that determine these limits."""
    settings: Sequence[StrategySetting]


class StrategyService:
    """The strategies of this daemon."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def strategies(self, caller: Caller) -> list[StrategyView]:
        """Return all strategies in the order of the registry."""
        require_admin(caller, "ADMIN DAEMON")
        latest, markets = self._scheduler.latest, self._scheduler.world.markets
        seen = {} if latest is None else _by_market(latest.seen.snapshot)
        return [_view(entry, markets, seen) for entry in STRATEGIES.values()]


def _by_market(snapshot: Snapshot) -> Mapping[str, Snapshot]:
    """Return the cloud as each market sees it."""
    return {name: view_of_market(snapshot, row) for row, name in enumerate(snapshot.markets.name)}


def _need(need: Need, seen: Mapping[str, Snapshot], markets: Sequence[MarketRules]) -> StrategyNeed:
    known = [market.name for market in markets if market.name in seen]
    lacking = [name for name in known if not is_filled(seen[name], need)]
    return StrategyNeed(
        name=str(need),
        source=ATTRIBUTES[need],
        filled=not lacking if known else None,
        lacking=lacking,
    )


def _view(
    entry: StrategyEntry, markets: Sequence[MarketRules], seen: Mapping[str, Snapshot]
) -> StrategyView:
    mine = [market for market in markets if market.strategy == entry.name]
    meanings = docs_of(entry.settings)
    return StrategyView(
        name=entry.name,
        summary=entry.summary,
        allocates=str(entry.allocates),
        charges=str(entry.charges),
        version=entry.version,
        markets=[market.name for market in mine],
        needs=[_need(need, seen, mine or markets) for need in sorted(entry.needs)],
        moves=[_moves(entry, market, seen.get(market.name)) for market in mine] or [_moves(entry)],
        moves_by=[key_of(name) for name in sorted(entry.moves.settings)],
        settings=[
            _setting(entry, name, described, mine, meanings.get(name, ""))
            for name, described in _parameters(entry)
            if name != _OF_MARKETS
        ],
    )


def _moves(
    entry: StrategyEntry, market: MarketRules | None = None, seen: Snapshot | None = None
) -> StrategyMoves:
    settings = entry.defaults if market is None else market.settings_in_force
    vms = _EXAMPLE_VMS
    if market is not None and seen is not None:
        vms = len(market_view(seen, seen.markets.name.index(market.name)).vms)
    limits = entry.moves
    most = None if limits.most is None else limits.most(settings, vms)
    hold = None if limits.hold_s is None else _text("hold_s", limits.hold_s(settings))
    words = [
        "any number of VMs"
        if most is None
        else f"at most {most:,} VMs in a period (of {vms:,} VMs)"
    ]
    if hold is not None:
        words.append(f"a migrated VM stays for {hold} unless it must leave its host")
    return StrategyMoves(
        market=None if market is None else market.name,
        vms=vms,
        most=most,
        hold=hold,
        words="; ".join(words),
    )


def _parameters(entry: StrategyEntry) -> list[tuple[str, StrategyParameter | None]]:
    return [(each.name, each.metadata.get(PARAMETER)) for each in fields(entry.settings)]


def _setting(
    entry: StrategyEntry,
    name: str,
    described: StrategyParameter | None,
    markets: Sequence[MarketRules],
    meaning: str,
) -> StrategySetting:
    return StrategySetting(
        name=name,
        key=key_of(name),
        unit="" if described is None else described.unit,
        meaning=meaning,
        least=None if described is None else _text(name, described.least),
        most=None if described is None else _text(name, described.most),
        tunable=described is not None and described.tunable,
        default=_text(name, getattr(entry.defaults, name)),
        values={
            market.name: _text(name, getattr(market.settings_in_force, name)) for market in markets
        },
    )


def _text(name: str, value: Any) -> str:
    unit = unit_of(name)
    if unit is not None:
        return unit.write(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
