"""A batch system's terms in a template: its name, its clusters, and what must agree.

The daemon reads it as a template is submitted, the controller as it starts.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from merkatd.policies.batch_queue import Aim
from merkatd.protocol.monitor_terms import WORKER
from merkatd.protocol.platform_messages import MonitorTerms

QUEUE: Final = "queue"
"""The monitor that sees a batch system."""
BATCHES: Final = ("slurm", "gridengine")
BATCH: Final = "slurm"
"""Unless a template says otherwise."""


def batch_name(parameters: Mapping[str, Any]) -> str:
    """Return the batch system that a template names. Raise ValueError where there is none such."""
    name = str(parameters.get("batch", BATCH))
    if name not in BATCHES:
        raise ValueError(f"parameters.batch = {name!r}: one of {', '.join(BATCHES)} is right")
    return name


def unserved(
    said: Mapping[str, Any], monitors: Mapping[str, MonitorTerms | None], built_in: Collection[str]
) -> Iterator[str]:
    """Say what of a template can't be served; `monitors` are those of its clusters, by name.

    A kind that is not built in is a site's own, and may see a batch system as well.
    """
    for read in (aim_of, batch_name):
        try:
            read(said)
        except ValueError as error:
            yield f"controller.{error}"
    head, workers = head_of(said), workers_of(said)
    yield from missing(said, [*monitors])
    if head == workers:
        yield f"cluster {head!r} can't be both the head and the workers"
    monitor = monitors.get(head)
    if head in monitors and (monitor is None or monitor.kind in {*built_in} - {QUEUE}):
        yield f"cluster {head!r}: its monitor is to be of kind {QUEUE}"
    if monitor is not None and monitor.kind == QUEUE:
        yield from _different(said, monitor.parameters, head)
    for name in monitors:
        if name not in {head, workers}:
            yield f"cluster {name!r}: elastic bids for {head!r} and {workers!r} only"


def _different(said: Mapping[str, Any], seen: Mapping[str, Any], head: str) -> Iterator[str]:
    """Say what the controller calls otherwise than the monitor that tells it of that."""
    for name, usual in (("worker", WORKER), ("batch", BATCH)):
        mine, other = str(said.get(name, usual)), str(seen.get(name, usual))
        if mine != other:
            yield (
                f"controller.parameters.{name} = {mine!r}, and the monitor of cluster {head!r} has"
                f" {other!r}: they must be the same"
            )


def aim_of(said: Mapping[str, Any]) -> Aim:
    """Return the aim that a template names. Raise ValueError where there is none such."""
    name = said.get("aim", Aim.THROUGHPUT)
    try:
        return Aim(name)
    except ValueError:
        raise ValueError(f"parameters.aim = {name!r}: one of {', '.join(Aim)} is right") from None


def missing(said: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    """Say which clusters a template of a batch system lacks."""
    for name in (head_of(said), workers_of(said)):
        if name not in names:
            yield f"there is no cluster {name!r}; there are {', '.join(names)}"


def head_of(said: Mapping[str, Any]) -> str:
    """Return the name of the cluster of the head."""
    return str(said.get("head", "head"))


def workers_of(said: Mapping[str, Any]) -> str:
    """Return the name of the cluster of the workers."""
    return str(said.get("workers", "workers"))
