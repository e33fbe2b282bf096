"""Scenario files: a cloud, applications and systems to compare, in TOML.

Missing keys have the values of the paper's simulation. All errors of a file are reported at once,
each with the accepted values.
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from merkatd.base.toml_reader import TomlTable, duration, name, number, one_of, text
from merkatd.market.price import PriceRule
from simulator.experiments.compared_systems import EASY, EDF, EDF_PERIODS, FCFS, ORDERS, PAPER
from simulator.model.simulated_cloud import (
    CORE,
    HPC2N,
    OperationCosts,
    SimulatedCloud,
    strategies_with_prices,
)
from simulator.scenarios.scenario_values import (
    MAX_COUNT,
    ScenarioError,
    at_least_one,
    pair,
    positive,
    several,
    some_time,
)
from simulator.workloads import SwfJob, read_swf
from simulator.workloads.job_applications import (
    Application,
    TaskAssignment,
    TenantKind,
    assign,
    bursts,
)
from simulator.workloads.lublin import lublin

SYSTEMS = (FCFS, EASY, EDF, EDF_PERIODS, PAPER, ORDERS)
_KINDS = tuple(kind.value for kind in TenantKind)
Make = Callable[[np.random.Generator], tuple[Application, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """The contents of a scenario file."""

    name: str
    systems: tuple[str, ...]
    levels: tuple[float, ...]
    """Factors of the times between arrivals, one run each."""
    cloud: SimulatedCloud
    parts: tuple[Make, ...]
    """Functions that make the applications from a random generator."""

    def applications(self, seed: int, level: float) -> tuple[Application, ...]:
        """Return all applications by submission, with new numbers; each part has its own seed."""
        seeds = np.random.SeedSequence(seed).spawn(len(self.parts))
        applications = [
            application
            for make, own in zip(self.parts, seeds, strict=True)
            for application in make(np.random.default_rng(own))
        ]
        applications.sort(key=lambda application: application.submit_s)
        return tuple(
            replace(application, number=at, submit_s=application.submit_s * level)
            for at, application in enumerate(applications)
        )


@lru_cache(maxsize=4)
def scenario_of(path: Path) -> Scenario:
    """Return the scenario of the file; raise ScenarioError or OSError."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: {error}") from None
    problems: list[str] = []
    scenario = _scenario(TomlTable(values, "", problems), path)
    if problems:
        raise ScenarioError("\n".join(f"{path}: {problem}" for problem in problems))
    return scenario


def _scenario(table: TomlTable, path: Path) -> Scenario:
    cloud = _cloud(table.table("cloud"))
    systems = table.take("systems", several(one_of(*SYSTEMS)), (EDF, ORDERS))
    # Queues count only cores: with them, a task may need at most the memory of its core's part.
    most_mib = cloud.memory_mib * (CORE / cloud.cpu if set(systems) - {PAPER, ORDERS} else 1.0)
    parts = [
        _workload(entry, path, cloud, most_mib) for entry in table.tables("workload", MAX_COUNT)
    ]
    alone = [
        _application(entry, cloud, most_mib) for entry in table.tables("application", MAX_COUNT)
    ]
    if alone:
        given = tuple(alone)
        parts.append(lambda _rng: given)
    if not parts:
        table.problems.append("[[workload]] or [[application]]: at least one table is required")
    scenario = Scenario(
        name=table.take("name", name, path.stem),
        systems=systems,
        levels=table.take("levels", several(positive), (1.0,)),
        cloud=cloud,
        parts=tuple(parts),
    )
    table.end()
    return scenario


def _cloud(table: TomlTable) -> SimulatedCloud:
    costs = table.table("costs")
    default = OperationCosts()
    given = {
        field.name: costs.take(field.name, number, getattr(default, field.name))
        for field in fields(OperationCosts)
    }
    costs.end()
    cloud = SimulatedCloud(
        nodes=table.take("nodes", at_least_one, HPC2N.nodes),
        cpu=table.take("cores", at_least_one, int(HPC2N.cpu / CORE)) * CORE,
        memory_mib=table.take("memory_mib", positive, HPC2N.memory_mib),
        strategy=table.take("strategy", one_of(*strategies_with_prices()), HPC2N.strategy),
        rule=PriceRule(
            table.take("price_rule", one_of(*(rule.value for rule in PriceRule)), HPC2N.rule.value)
        ),
        reserve_cpu=table.take("reserve_cpu", positive, HPC2N.reserve_cpu),
        reserve_memory=table.take("reserve_memory", positive, HPC2N.reserve_memory),
        period_s=table.take("period", some_time, HPC2N.period_s),
        renewal_s=table.take("renewal", some_time, HPC2N.renewal_s),
        costs=OperationCosts(**given),
    )
    table.end()
    return cloud


def _workload(table: TomlTable, path: Path, cloud: SimulatedCloud, most_mib: float) -> Make:
    """Return the function that makes a workload, from a trace or the Lublin-Feitelson model."""
    trace = table.take("trace", text, "")
    jobs = table.take("jobs", at_least_one, 1000)
    largest = table.take("largest", at_least_one, cloud.cores)
    span_s = table.take("span", some_time, 0.0)
    mean_run_s = table.take("mean_run", some_time, 0.0)
    burst = table.take("burst", at_least_one, 1)
    spread_s = table.take("burst_spread", duration, 60.0)
    least, most = table.take("deadlines", pair, (1.5, 10.0))
    a_core = CORE / cloud.cpu
    least_memory, most_memory = table.take("memory", pair, (0.2 * a_core, a_core))
    if most_memory * cloud.memory_mib > most_mib * (1 + 1e-9):
        table.wrong("memory", f"must be parts of a node's, at most {_most(most_mib, cloud)}")
    terms = TaskAssignment(
        node_memory_mib=cloud.memory_mib,
        boot_s=cloud.costs.boot_s,
        least_factor=least,
        most_factor=most,
        base_budget=table.take("budget", positive, 2000.0),
        least_memory=least_memory,
        most_memory=most_memory,
        tenant=TenantKind(table.take("tenant", one_of(*_KINDS), TenantKind.FULL_DEADLINE.value)),
    )
    if trace and not (path.parent / trace).is_file():
        table.wrong("trace", "no such file in the folder of the scenario file")
    table.end()

    def make(rng: np.random.Generator) -> tuple[Application, ...]:
        trace_jobs: list[SwfJob] = (
            [job for job in read_swf(path.parent / trace, jobs) if job.procs <= largest]
            if trace
            else list(lublin(jobs, min(largest, cloud.cores), rng))
        )
        applications = assign(_scaled(trace_jobs, span_s, mean_run_s), terms, rng)
        return bursts(applications, burst, spread_s) if burst > 1 else applications

    return make


def _scaled(jobs: list[SwfJob], span_s: float, mean_run_s: float) -> list[SwfJob]:
    """Return the jobs scaled to this span and mean run time; 0 leaves either unchanged."""
    if not jobs:
        return jobs
    between_s = jobs[-1].submit_s - jobs[0].submit_s
    times = span_s / between_s if span_s and between_s else 1.0
    length = mean_run_s / float(np.mean([job.run_s for job in jobs])) if mean_run_s else 1.0
    return [
        job._replace(submit_s=job.submit_s * times, run_s=max(1.0, job.run_s * length))
        for job in jobs
    ]


def _application(table: TomlTable, cloud: SimulatedCloud, most_mib: float) -> Application:
    """Return the application of an [[application]] table."""
    run_s = table.need("run", some_time, 1.0)
    ideal_s = run_s + cloud.costs.boot_s
    application = Application(
        number=0,
        submit_s=table.take("submit", duration, 0.0),
        run_s=run_s,
        tasks=table.take("tasks", at_least_one, 1),
        memory_mib=table.take("memory_mib", positive, cloud.memory_mib * CORE / cloud.cpu),
        ideal_s=ideal_s,
        deadline_s=table.need("deadline", some_time, ideal_s),
        budget=table.take("budget", positive, 1000.0),
        tenant=TenantKind(table.take("tenant", one_of(*_KINDS), TenantKind.FULL_DEADLINE.value)),
    )
    table.end()
    if application.tasks > cloud.cores:
        table.wrong("tasks", f"must be at most the cloud's cores, {cloud.cores}")
    if application.memory_mib > most_mib * (1 + 1e-9):
        table.wrong("memory_mib", f"must be at most {most_mib:g}: {_most(most_mib, cloud)}")
    return application


def _most(most_mib: float, cloud: SimulatedCloud) -> str:
    part = most_mib / cloud.memory_mib
    if part == 1.0:
        return "1, the whole node"
    return f"{part:.3g}, as fcfs, easy and edf count only cores"
