"""The systems that a scenario compares: strategies of the registry, and baselines."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from merkatd.base.toml_reader import TomlTable, number, one_of
from merkatd.cluster.snapshot import SnapshotError
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Need, Pricing
from merkatd.placement.registry import STRATEGIES
from merkatd.placement.settings_json import settings_from_json
from simulator.baselines.placement.best_fit import BestFit
from simulator.baselines.placement.ffd_sum import FfdSum
from simulator.baselines.placement.first_fit import FirstFit
from simulator.baselines.placement.random_fit import RandomFit
from simulator.baselines.placement.worst_fit import WorstFit
from simulator.kernel.data_center import DataCenter
from simulator.kernel.kernel_deciders import KernelDecider, Placer, PlacerDecider, StrategyDecider
from simulator.scenarios.scenario_values import several

BASELINES: Final[Mapping[str, Callable[[], Placer]]] = {
    "first-fit": FirstFit,
    "best-fit": BestFit,
    "worst-fit": WorstFit,
    "random-fit": RandomFit,
    "ffd-sum": FfdSum,
}
_KNOWN: Final = tuple(dict.fromkeys([*BASELINES, *STRATEGIES]))
_NOT_HERE: Final = "scenario files have none; `merkatd demo` runs it"
_FILLED_BY: Final[Mapping[Need, str]] = {
    Need.JOBS: _NOT_HERE,
    Need.SERVICES: _NOT_HERE,
    Need.REPLICATED: _NOT_HERE,
    Need.DOMAINS: "[domains] describes them, as in network = 4",
    Need.TOPOLOGY: "center.tree with two levels or more describes it, as in [2, 16]",
    Need.HISTORY: "center.history counts the monitorings that it gets, as in history = 10",
}


@dataclass(frozen=True, slots=True)
class ComparedDeciders:
    """The systems, and what makes their deciders."""

    names: tuple[str, ...]
    settings: Mapping[str, Any]
    pricing: Pricing
    history: int

    def decider(self, name: str) -> KernelDecider:
        """Return a new decider: of a baseline without settings, the one that needs no snapshot."""
        if name in BASELINES and name not in self.settings:
            return PlacerDecider(BASELINES[name]())
        return StrategyDecider(
            STRATEGIES[name], self.settings.get(name), self.pricing, self.history
        )


def read_deciders(
    table: TomlTable, settings: Mapping[str, Any], history: int, center: DataCenter
) -> ComparedDeciders:
    """Return the systems of a scenario file; `settings` are those by strategy, as in the file."""
    names = table.need("systems", several(one_of(*_KNOWN)), ("first-fit",))
    if len(set(names)) < len(names):
        table.wrong("systems", "must not have a system twice")
    filled = {Need.DOMAINS} if center.hosts.domains else set()
    filled |= {Need.TOPOLOGY} if center.hosts.topology.shape[1] else set()
    filled |= {Need.HISTORY} if history else set()
    for name in names:
        lacking = STRATEGIES[name].needs - filled if name in STRATEGIES else frozenset()
        for need in sorted(lacking):
            table.wrong("systems", f"strategy {name} needs {need}: {_FILLED_BY[need]}")
    return ComparedDeciders(
        names, _settings(table.table("settings"), settings, names), _pricing(table), history
    )


def _settings(table: TomlTable, given: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    read = {}
    for name, values in given.items():
        if name not in STRATEGIES:
            continue  # `end` tells it
        table.table(name)
        if name not in names:
            table.complain(f"settings.{name}: systems has no {name}, so no run would use it")
            continue
        if isinstance(values, Mapping) and "pricing" in values:
            table.complain(f"settings.{name}.pricing: write a table [prices] instead")
            continue
        try:
            read[name] = settings_from_json(STRATEGIES[name].settings, values, f"settings.{name}")
        except SnapshotError as error:
            table.complain(str(error))
    for name in STRATEGIES:
        table.table(name)
    table.end()
    return read


def _pricing(table: TomlTable) -> Pricing:
    prices = table.table("prices")
    rules = [rule.value for rule in PriceRule]
    rule = PriceRule(prices.take("rule", one_of(*rules), Pricing().rule.value))
    reserve = {name: prices.take(f"reserve_{name}", number, 0.0) for name in ("cpu", "memory")}
    prices.end()
    return Pricing(rule=rule, reserve=reserve)
