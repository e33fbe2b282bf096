"""The adapter of each batch system, by the name that templates give it."""

from collections.abc import Mapping
from typing import Any, Final

from controllers.batch_terms import batch_name
from controllers.monitors.queues.batch import Batch
from controllers.monitors.queues.gridengine import GridEngine
from controllers.monitors.queues.slurm import Slurm

_ADAPTERS: Final[Mapping[str, type[Batch]]] = {"slurm": Slurm, "gridengine": GridEngine}


def batch_of(parameters: Mapping[str, Any]) -> Batch:
    """Return the adapter that a template names. Raise ValueError where there is none such."""
    return _ADAPTERS[batch_name(parameters)]()
