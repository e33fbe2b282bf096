"""A batch system's terms in a template: its name, its clusters, and parameters that must agree.

The daemon reads them when a tenant submits a template, the controller when it starts.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from merkatd.policies.batch_queue import QueueAim
from merkatd.protocol.monitor_terms import WORKER
from merkatd.protocol.platform_messages import MonitorTerms

QUEUE: Final = "queue"
"""The kind of the monitor of a batch system."""
BATCHES: Final = ("slurm", "gridengine")
BATCH: Final = "slurm"
"""The default batch system."""


def batch_name(parameters: Mapping[str, Any]) -> str:
    """Return the batch system that a template names. Raise ValueError if it is unknown."""
    name = str(parameters.get("batch", BATCH))
    if name not in BATCHES:
        raise ValueError(f"parameters.batch must be one of {', '.join(BATCHES)} (got {name!r})")
    return name


def unserved(
    parameters: Mapping[str, Any],
    monitors: Mapping[str, MonitorTerms | None],
    built_in: Collection[str],
) -> Iterator[str]:
    """Yield the errors in a batch system's template; `monitors` are its monitors by cluster.

    A monitor whose kind is not built in is a site's own, and may support a batch system as well.
    """
    for read in (aim_of, batch_name):
        try:
            read(parameters)
        except ValueError as error:
            yield f"controller.{error}"
    head, workers = head_of(parameters), workers_of(parameters)
    yield from missing(parameters, [*monitors])
    if head == workers:
        yield f"cluster {head!r} can't be both the head and the workers"
    monitor = monitors.get(head)
    if head in monitors and (monitor is None or monitor.kind in {*built_in} - {QUEUE}):
        yield f"cluster {head!r}: its monitor must be of kind {QUEUE}"
    if monitor is not None and monitor.kind == QUEUE:
        yield from _different(parameters, monitor.parameters, head)
    for name in monitors:
        if name not in {head, workers}:
            yield (
                f"cluster {name!r}: a batch system can have only the clusters {head!r} and"
                f" {workers!r}"
            )


def _different(
    of_controller: Mapping[str, Any], of_monitor: Mapping[str, Any], head: str
) -> Iterator[str]:
    """Yield the parameters that differ between the controller and its monitor."""
    for name, usual in (("worker", WORKER), ("batch", BATCH)):
        ours, theirs = str(of_controller.get(name, usual)), str(of_monitor.get(name, usual))
        if ours != theirs:
            yield (
                f"controller.parameters.{name} must be the same as for the monitor of cluster"
                f" {head!r} (got {ours!r} and {theirs!r})"
            )


def aim_of(parameters: Mapping[str, Any]) -> QueueAim:
    """Return the aim that a template names. Raise ValueError if it is unknown."""
    name = parameters.get("aim", QueueAim.THROUGHPUT)
    try:
        return QueueAim(name)
    except ValueError:
        raise ValueError(
            f"parameters.aim must be one of {', '.join(QueueAim)} (got {name!r})"
        ) from None


def missing(parameters: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    """Yield an error for each cluster that a batch system's template lacks."""
    for name in (head_of(parameters), workers_of(parameters)):
        if name not in names:
            yield f"cluster {name!r} is missing (got {', '.join(names)})"


def head_of(parameters: Mapping[str, Any]) -> str:
    """Return the name of the cluster of the head."""
    return str(parameters.get("head", "head"))


def workers_of(parameters: Mapping[str, Any]) -> str:
    """Return the name of the cluster of the workers."""
    return str(parameters.get("workers", "workers"))
