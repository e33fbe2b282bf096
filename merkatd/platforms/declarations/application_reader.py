"""The parser of the tables of a template that declare the application: job, service, replicated."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from merkatd.base import toml_reader
from merkatd.base.toml_reader import TomlTable, listed
from merkatd.platforms.declarations.application_terms import (
    ApplicationTerms,
    JobTerms,
    ReplicatedTerms,
    ServiceTerms,
    StageTerms,
)
from merkatd.platforms.declarations.template_time import TemplateTime, moment

JOB, SERVICE, REPLICATED = "job", "service", "replicated"
TABLES: Final = (JOB, SERVICE, REPLICATED)
"""The tables of which a template may have one."""
MOST_STAGES: Final = 32
MOST_WORK: Final = 1e12
"""The most core-seconds of a stage: more than thirty thousand years of a core."""
MOST_SPEED: Final = 1e9
"""The most percent of a core: ten million cores."""
MOST_MEMORY_MIB: Final = 1e12


def declares(top: TomlTable) -> bool:
    """Return whether a template declares its application."""
    return any(top.has(name) for name in TABLES)


def read_application(
    top: TomlTable, monitored: Mapping[str, bool], most_vms: int
) -> ApplicationTerms | None:
    """Return what the template declares; None without a declaration.

    `monitored` says of each cluster whether it has a monitor, and `most_vms` is the most VMs of
    all. A stored declaration with problems, of an earlier version, counts as none: its platform
    goes on without it.
    """
    known = len(top.problems)
    given = [name for name in TABLES if top.has(name)]
    if len(given) > 1:
        top.complain(f"{' and '.join(given)}: a template may have only one of {listed(TABLES)}")
    tables = {name: top.table(name) for name in TABLES}
    found: list[ApplicationTerms] = []
    if JOB in given:
        found.append(_job(tables[JOB]))
    if SERVICE in given:
        found.append(_service(tables[SERVICE], monitored))
    if REPLICATED in given:
        found.append(_replicated(tables[REPLICATED], most_vms))
    if top.stored and len(top.problems) > known:
        del top.problems[known:]
        return None
    return found[0] if found else None


def _job(table: TomlTable) -> JobTerms:
    stages = table.tables("stage", MOST_STAGES)
    if len(stages) > MOST_STAGES:
        table.complain(f"job.stage: must be at most {MOST_STAGES} tables [[job.stage]]")
    terms = JobTerms(
        goal=table.take("goal", _moment, None),
        stages=tuple(_stage(stage) for stage in stages[:MOST_STAGES]),
    )
    table.end()
    return terms


def _moment(value: Any) -> TemplateTime | None:
    return moment(value)


def _stage(table: TomlTable) -> StageTerms:
    stage = StageTerms(
        work=table.need("work", _positive(MOST_WORK), 1.0),
        least_speed=table.take("least_speed", _amount(MOST_SPEED), 0.0),
        greatest_speed=table.need("greatest_speed", _positive(MOST_SPEED), MOST_SPEED),
        memory_mib=table.take("memory", _amount(MOST_MEMORY_MIB), 0.0),
    )
    if stage.least_speed > stage.greatest_speed:
        table.wrong("least_speed", f"must be at most greatest_speed ({stage.greatest_speed:g})")
    table.end()
    return stage


def _service(table: TomlTable, monitored: Mapping[str, bool]) -> ServiceTerms:
    measured = [name for name, has_monitor in monitored.items() if has_monitor]
    only = measured[0] if len(measured) == 1 else ""
    terms = ServiceTerms(
        response_goal_s=table.need("response_goal", _some_time, 1.0),
        cluster=table.take("cluster", toml_reader.name, only),
        work_per_request=table.take("work_per_request", _maybe_work, None),
    )
    if not measured:
        table.complain("service: no cluster has a monitor; expected a table [cluster.monitor]")
    elif not table.has("cluster") and not only:
        table.wrong("cluster", f"is missing; expected one of {listed(measured)}")
    elif table.has("cluster") and terms.cluster not in measured:
        table.wrong("cluster", f"must be a cluster with a monitor: {listed(measured)}")
    table.end()
    return terms


def _replicated(table: TomlTable, most_vms: int) -> ReplicatedTerms:
    terms = ReplicatedTerms(
        tasks=table.need("tasks", _tasks(most_vms), 1),
        run_time_s=table.need("run_time", _some_time, 1.0),
        reliability=table.need("reliability", _probability, 0.5),
    )
    table.end()
    return terms


def _tasks(most_vms: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most_vms:
            raise ValueError(
                f"must be a whole number from 1 to {most_vms}, the most VMs of all clusters"
            )
        return value

    return read


def _amount(most: float) -> Callable[[Any], float]:
    return lambda value: toml_reader.number(value, most)


def _positive(most: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        number = toml_reader.number(value, most)
        if number == 0:
            raise ValueError("must be above 0")
        return number

    return read


def _maybe_work(value: Any) -> float | None:
    return _positive(MOST_WORK)(value)


def _some_time(value: Any) -> float:
    seconds = toml_reader.duration(value)
    if seconds == 0:
        raise ValueError("must be above 0")
    return seconds


def _probability(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ValueError("must be a number above 0 and below 1")
    return float(value)
