"""VM types: the tables of the papers on decentralised placement.

A unit of CPU is a hundredth of a core. The papers' GB are taken as GiB.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from merkatd.cluster import Floats

_MIB_PER_GB: Final = 1024.0


@dataclass(frozen=True, slots=True)
class VmType:
    """A size of VMs that a data centre offers."""

    name: str
    category: str
    """What it is meant for: compute, memory or general."""
    cpu: float
    memory_mib: float


def _types(
    rows: tuple[tuple[str, str, float, float], ...], units_per_cpu: float
) -> tuple[VmType, ...]:
    return tuple(
        VmType(name, category, cpu * units_per_cpu, memory * _MIB_PER_GB)
        for category, name, cpu, memory in rows
    )


PAPER_III: Final = _types(
    (
        ("compute", "c1.medium", 15.0, 7.44),
        ("compute", "c3.xlarge", 30.0, 14.88),
        ("memory", "m2.xlarge", 6.5, 17.1),
        ("memory", "m2.2xlarge", 13.0, 34.2),
        ("general", "m3.medium", 3.24, 3.75),
        ("general", "m3.large", 6.5, 7.5),
    ),
    100.0,
)
"""Paper III, Table 1: virtual CPUs and GB. (Its columns of percentages are those of a host twice as
large as the one that its text states.)"""
PAPER_III_HOST: Final = (5800.0, 64 * _MIB_PER_GB)
"""Paper III, 4.2: 58 virtual CPUs and 64 GB."""
PAPER_IV: Final = _types(
    (
        ("compute", "c3.xlarge", 4.0, 7.5),
        ("compute", "c3.2xlarge", 8.0, 15.0),
        ("memory", "r3.large", 2.0, 15.25),
        ("memory", "r3.xlarge", 4.0, 30.5),
        ("general", "m3.large", 2.0, 7.5),
        ("general", "m3.xlarge", 4.0, 15.0),
    ),
    50.0,
)
"""Paper IV, Table 2: EC2 compute units, of which a core has two, and GB."""
PAPER_IV_HOST: Final = (800.0, 64 * _MIB_PER_GB)
"""Paper IV, section 5: 8 cores of two compute units each, and 64 GB."""
VM_TYPES: Final = {"paper-3": PAPER_III, "paper-4": PAPER_IV}
"""The tables by name."""


def sizes_of(types: tuple[VmType, ...]) -> Floats:
    """Return [types, resources]: CPU and memory of each type."""
    return np.array([(each.cpu, each.memory_mib) for each in types])
