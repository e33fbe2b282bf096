"""Scenario files of whole data centres, and the points of their sweeps.

A sweep changes values of the file: each point is the file with other values, and is read like a
file of its own. All problems of a file are told at once.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np

from merkatd.base.toml_reader import TomlTable, name, one_of
from simulator.kernel.data_center import DataCenter
from simulator.kernel.kernel_deciders import PlacerDecider
from simulator.kernel.kernel_run import KernelRun
from simulator.scenarios.center_tables import read_center
from simulator.scenarios.compared_deciders import BASELINES, ComparedDeciders, read_deciders
from simulator.scenarios.scenario_values import ScenarioError, at_least_one, several, some_time
from simulator.scenarios.workload_tables import Draw, read_workloads
from simulator.workloads.vm_requests import VmRequests

OWN_KEYS: Final = frozenset(
    {
        "center",
        "domains",
        "failures",
        "hosts",
        "operations",
        "seeds",
        "span",
        "sweep",
        "tariff",
        "triggers",
    }
)
"""Keys that only files of whole data centres have."""
_NOT_SWEPT: Final = ("name", "plot", "seeds", "sweep", "systems", "table")
_MOST_POINTS: Final = 10_000
_MOST_PERIODS: Final = 10_000_000
_IN_TABLE: Final = (
    *("active_hosts", "utilisation_cpu", "pending", "ended", "rejected"),
    *("live_migrations", "energy_kwh", "sla_violations_vm_h"),
)
_IN_PLOT: Final = ("active_hosts", "utilisation_cpu", "pending")
Swept = Mapping[str, Any]
"""The values of a point by the parameters' names."""


@dataclass(frozen=True, slots=True, eq=False)
class CenterPoint:
    """A data centre with its workload and the systems to compare: a file at a point of a sweep."""

    swept: Swept
    center: DataCenter
    draws: tuple[Draw, ...]
    deciders: ComparedDeciders
    span_s: float
    traces: tuple[Path, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CenterScenario:
    """The contents of a scenario file."""

    name: str
    systems: tuple[str, ...]
    seeds: int
    """The number of repetitions, with other random numbers."""
    points: tuple[CenterPoint, ...]
    in_table: tuple[str, ...]
    """Outcomes that the table has."""
    in_plot: tuple[str, ...]

    @property
    def traces(self) -> tuple[Path, ...]:
        """Return the files of all traces."""
        return tuple(dict.fromkeys(file for point in self.points for file in point.traces))


def describes_center(path: Path) -> bool:
    """Return whether a scenario file describes a whole data centre. Raise OSError."""
    try:
        return not OWN_KEYS.isdisjoint(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return False


@lru_cache(maxsize=4)
def center_scenario_of(text: str, path: Path) -> CenterScenario:
    """Return the scenario of a file's text; raise ScenarioError."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{path}: {error}") from None
    problems: list[str] = []
    sweep = list(_parameters(values.get("sweep", {}), "", problems))
    first = _read(values, path, problems, {})
    if not problems and sweep:
        points = list[CenterPoint]()
        for swept in _points(sweep, problems):
            found: list[str] = []
            points += _read(_changed(values, swept, found), path, found, swept).points
            at = ", ".join(f"{key} = {value!r}" for key, value in swept.items())
            problems += [f"at {at}: {problem}" for problem in found]
            if problems:
                break
    else:
        points = list(first.points)
    if problems:
        raise ScenarioError("\n".join(f"{path}: {problem}" for problem in problems))
    return CenterScenario(
        first.name, first.systems, first.seeds, tuple(points), first.in_table, first.in_plot
    )


def _read(
    values: Mapping[str, Any], path: Path, problems: list[str], swept: Swept
) -> CenterScenario:
    """Return the scenario with this point alone."""
    table = TomlTable(values, "", problems)
    center, history = read_center(table, _mapping(values, "domains"))
    deciders = read_deciders(table, _mapping(values, "settings"), history, center)
    span_s = table.need("span", some_time, 3600.0)
    for key in ("period", "monitor"):
        if span_s / getattr(center.rhythm, f"{key}_s") > _MOST_PERIODS:
            table.complain(f"center.{key}: must fit at most {_MOST_PERIODS} times into the span")
    draws, traces = read_workloads(table, path.parent, center.hosts.capacity, span_s)
    known = _outcomes(center)
    table.table("sweep")
    scenario = CenterScenario(
        table.take("name", name, path.stem),
        deciders.names,
        table.take("seeds", at_least_one, 4),
        (CenterPoint(swept, center, draws, deciders, span_s, traces),),
        table.take("table", several(one_of(*known)), _IN_TABLE),
        table.take("plot", several(one_of(*known)), _IN_PLOT),
    )
    table.end()
    return scenario


def _mapping(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    given = values.get(key, {})
    return given if isinstance(given, Mapping) else {}


def _outcomes(center: DataCenter) -> tuple[str, ...]:
    """Return the names of the columns of an outcome."""
    none = VmRequests(arrival_s=np.zeros(0), lifetime_s=np.zeros(0), size=np.zeros((0, 2)))
    run = KernelRun(center, none, PlacerDecider(BASELINES["first-fit"]()), span_s=1e-3)
    return tuple(name for name in run.run().columns if name != "at_s")


# -- sweeps -----------------------------------------------------------------------------------


def _parameters(
    values: Any, above: str, problems: list[str]
) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the parameters of a sweep, written as "a.b" = [1, 2] or as tables."""
    if not isinstance(values, Mapping):
        problems.append("sweep: must be a table, as in workload.requests = [100, 200]")
        return
    for key, given in values.items():
        parameter = f"{above}{key}"
        top = parameter.partition(".")[0]
        if top in _NOT_SWEPT:
            problems.append(f"sweep.{parameter}: {top} is the same for all runs")
        elif isinstance(given, Mapping):
            yield from _parameters(given, f"{parameter}.", problems)
        elif isinstance(given, list) and given:
            yield parameter, given
        else:
            problems.append(f"sweep.{parameter} = {given!r:.40}: must be a list of values")


def _points(sweep: Sequence[tuple[str, Sequence[Any]]], problems: list[str]) -> list[Swept]:
    """Return all combinations of the parameters' values."""
    count = 1
    for _, given in sweep:
        count *= len(given)
    if count > _MOST_POINTS:
        problems.append(f"sweep: must have at most {_MOST_POINTS} combinations (got {count})")
        return []
    names = [parameter for parameter, _ in sweep]
    return [
        dict(zip(names, chosen, strict=True)) for chosen in product(*(given for _, given in sweep))
    ]


def _changed(values: Mapping[str, Any], swept: Swept, problems: list[str]) -> Mapping[str, Any]:
    """Return the file's values at a point. A number in a name chooses one of several tables."""
    changed = deepcopy(dict(values))
    changed.pop("sweep", None)
    for parameter, value in swept.items():
        if not _set(changed, parameter.split("."), value):
            problems.append(f"sweep.{parameter}: the file has no such table")
    return changed


def _set(inside: Any, words: Sequence[str], value: Any) -> bool:
    """Set a value within tables; return whether its place exists."""
    word, *rest = words
    if isinstance(inside, list):
        if word.isdecimal():
            at = int(word) - 1
            return 0 <= at < len(inside) and bool(rest) and _set(inside[at], rest, value)
        known = [_set(each, words, value) for each in inside]
        return bool(known) and all(known)
    if not isinstance(inside, dict):
        return False
    if not rest:
        inside[word] = deepcopy(value)
        return True
    return _set(inside.setdefault(word, {}), rest, value)
