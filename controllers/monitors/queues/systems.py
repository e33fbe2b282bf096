"""Which batch systems there are, by the names that templates give them."""

from collections.abc import Mapping
from typing import Any, Final

from controllers.monitors.queues.batch import Batch
from controllers.monitors.queues.gridengine import GridEngine
from controllers.monitors.queues.slurm import Slurm

BATCHES: Final[Mapping[str, type[Batch]]] = {"slurm": Slurm, "gridengine": GridEngine}
BATCH: Final = "slurm"
"""Unless a template says otherwise."""


def batch_of(parameters: Mapping[str, Any]) -> Batch:
    """Return the adapter that a template names. Raise ValueError where there is none such."""
    name = str(parameters.get("batch", BATCH))
    if name not in BATCHES:
        raise ValueError(f"parameters.batch = {name!r}: one of {', '.join(BATCHES)} is right")
    return BATCHES[name]()
