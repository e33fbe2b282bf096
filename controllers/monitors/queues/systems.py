"""The adapters of batch systems, by their names in templates."""

from collections.abc import Mapping
from typing import Any, Final

from controllers.monitors.batch_systems.batch_system import Batch
from controllers.monitors.batch_systems.grid_engine import GridEngine
from controllers.monitors.batch_systems.slurm import Slurm
from merkatd.policies.batch_terms import batch_name

_ADAPTERS: Final[Mapping[str, type[Batch]]] = {"slurm": Slurm, "gridengine": GridEngine}


def batch_of(parameters: Mapping[str, Any]) -> Batch:
    """Return the adapter that a template names. Raise ValueError if the name is unknown."""
    return _ADAPTERS[batch_name(parameters)]()
