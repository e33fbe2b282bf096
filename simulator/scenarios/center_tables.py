"""The tables of a scenario file that describe a data centre: hosts, domains, failures, prices."""

from collections.abc import Mapping
from dataclasses import fields
from math import inf, nan, prod
from typing import Any, Final

import numpy as np

from merkatd.base.toml_reader import TomlTable, count, duration, flag, number
from merkatd.cluster import FailureRates, Ints
from simulator.kernel.data_center import (
    HOST_UNIT,
    DataCenter,
    KernelRhythm,
    Tariff,
    equal_domains,
    tree_of_hosts,
)
from simulator.kernel.unit_outages import USUAL_REPAIR_S
from simulator.model.load_triggers import TriggerLimits
from simulator.model.simulated_cloud import CORE, OperationCosts
from simulator.scenarios.scenario_values import (
    MAX_COUNT,
    at_least_one,
    part,
    positive,
    several,
    some_time,
)

MOST_CORES: Final = 1e6
MOST_MEMORY_MIB: Final = 8e9
_MOST_HISTORY: Final = 100_000
_MOST_FAILURES: Final = 1e6
"""The most failures a year: one in half a minute."""
_SMALL: Final = (8.0, 65_536.0)
"""Cores and memory of a host that the file describes wrongly, until its problems are told."""


def read_center(table: TomlTable, domains: Mapping[str, Any]) -> tuple[DataCenter, int]:
    """Return the data centre of a scenario file, and the monitorings that strategies remember.

    `domains` are the domains as the file has them.
    """
    center = table.table("center")
    one_level: tuple[int, ...] = ()
    tree = center.take("tree", several(at_least_one), one_level)
    kinds = table.tables("hosts", MAX_COUNT)
    columns = _host_columns(kinds, tree, table)
    hosts = len(columns["link_mbps"])
    branches = tree if tree and prod(tree) == hosts else (hosts,)
    capacity = columns.pop("capacity")
    placed = {"domains": _domains(table.table("domains"), domains, hosts)}
    made = DataCenter(
        hosts=tree_of_hosts(branches, capacity, **columns, **placed),
        costs=_costs(table.table("operations")),
        tariff=_tariff(table.table("tariff")),
        triggers=_triggers(table.table("triggers")),
        wake_s=center.take("wake", duration, 60.0),
        asleep_watts=center.take("asleep_watts", number, 0.0),
        migrating_part=center.take("migrating_part", part, 0.5),
        rhythm=KernelRhythm(
            period_s=center.take("period", some_time, 60.0),
            monitor_s=center.take("monitor", some_time, 60.0),
            decide_at_events=center.take("decide_at_events", flag, default=False),
            patience_s=center.take("patience", some_time, inf),
        ),
        **_failures(table.table("failures"), (HOST_UNIT, *placed["domains"])),
    )
    history = center.take("history", count(_MOST_HISTORY), 10)
    center.end()
    return made, history


def _host_columns(
    kinds: list[TomlTable], tree: tuple[int, ...], table: TomlTable
) -> dict[str, Any]:
    """Return the columns of all hosts, a kind after the other."""
    if not kinds:
        table.complain("[[hosts]]: at least one table is required")
    alone = prod(tree) if tree and len(kinds) == 1 else 0
    if alone > MAX_COUNT:
        table.complain(f"center.tree: must have at most {MAX_COUNT} leaves (got {alone})")
        alone = 1
    rows: list[tuple[float, ...]] = []
    counts: list[int] = []
    for kind in kinds:
        counts.append(
            kind.take("count", at_least_one, alone)
            if alone
            else kind.need("count", at_least_one, 1)
        )
        cores = kind.need("cores", _cores, _SMALL[0])
        memory_mib = kind.need("memory_mib", _memory, _SMALL[1])
        link_mbps = kind.take("link_mbps", positive, nan)
        idle_watts = kind.take("idle_watts", number, 0.0)
        full_watts = kind.take("full_watts", number, idle_watts)
        if full_watts < idle_watts:
            kind.wrong("full_watts", f"must be at least idle_watts, {idle_watts:g}")
        can_sleep = kind.take("can_sleep", flag, default=False)
        kind.end()
        rows.append((cores * CORE, memory_mib, link_mbps, idle_watts, full_watts, can_sleep))
    total = sum(counts)
    if total > MAX_COUNT:
        table.complain(f"hosts: must be at most {MAX_COUNT} in all (got {total})")
        rows, counts = rows[:1], [1]
    elif tree and total != prod(tree):
        leaves = " x ".join(map(str, tree))
        table.complain(
            f"hosts: the counts must add up to the leaves of center.tree, {leaves} = {prod(tree)}"
            f" (got {total})"
        )
    wide = np.repeat(np.array(rows or [(*_SMALL, nan, 0.0, 0.0, 0.0)]), counts or [1], axis=0)
    return {
        "capacity": wide[:, :2],
        "link_mbps": wide[:, 2],
        "idle_watts": wide[:, 3],
        "full_watts": wide[:, 4],
        "can_sleep": wide[:, 5] > 0,
    }


def _cores(value: Any) -> float:
    if positive(value) > MOST_CORES:
        raise ValueError(f"must be a number above 0 and at most {MOST_CORES:g}")
    return float(value)


def _memory(value: Any) -> float:
    if positive(value) > MOST_MEMORY_MIB:
        raise ValueError(f"must be a number above 0 and at most {MOST_MEMORY_MIB:g}")
    return float(value)


def _domains(table: TomlTable, kinds: Mapping[str, Any], hosts: int) -> dict[str, Ints]:
    """Return the domains of all hosts by kind: a number of domains, or a table."""

    def some(value: Any) -> int:
        if at_least_one(value) > hosts:
            raise ValueError(f"must be at most one for each of the {hosts} hosts")
        return int(value)

    made = {}
    for kind, value in kinds.items():
        if kind == HOST_UNIT:
            table.wrong(kind, "is the kind of single hosts; choose another name, such as power")
            continue
        number_of, redundant = 1, False
        if isinstance(value, Mapping):
            inner = table.table(kind)
            number_of = inner.need("count", some, 1)
            redundant = inner.take("redundant", flag, default=False)
            inner.end()
        else:
            number_of = table.take(kind, some, 1)
        made[kind] = equal_domains(hosts, number_of, redundant=redundant)
    table.end()
    return made


def _failures(table: TomlTable, kinds: tuple[str, ...]) -> dict[str, Any]:
    """Return the failures a year and the times to repair, by kind."""
    rates, repair_s = dict[str, float](), dict[str, float]()
    for kind in kinds:
        inner = table.table(kind)
        if table.has(kind):
            rates[kind] = inner.need("per_year", _per_year, 0.0)
            repair_s[kind] = inner.take("repair", some_time, USUAL_REPAIR_S)
        inner.end()
    table.end()
    per_year = np.array(list(rates.values()), dtype=float)
    return {"rates": FailureRates(kind=tuple(rates), per_year=per_year), "repair_s": repair_s}


def _per_year(value: Any) -> float:
    return number(value, _MOST_FAILURES)


def _costs(table: TomlTable) -> OperationCosts:
    default = OperationCosts()
    names = [entry.name for entry in fields(OperationCosts) if entry.name != "thrashing"]
    readers = {"migrating_speed": part}
    given = {
        name: table.take(name, readers.get(name, number), getattr(default, name)) for name in names
    }
    table.end()
    return OperationCosts(**given)


def _tariff(table: TomlTable) -> Tariff:
    given = {entry.name: table.take(entry.name, number, 0.0) for entry in fields(Tariff)}
    table.end()
    return Tariff(**given)


def _triggers(table: TomlTable) -> TriggerLimits:
    usual = TriggerLimits()
    over = table.take("over_part", positive, usual.over_part)
    under = table.take("under_part", number, usual.under_part)
    row = table.take("monitorings", at_least_one, usual.monitorings)
    if not under < over:
        table.wrong("under_part", f"must be less than over_part, {over:g}")
        over, under = usual.over_part, usual.under_part
    table.end()
    return TriggerLimits(over_part=over, under_part=under, monitorings=row)
