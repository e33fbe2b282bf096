"""Resources in base units, as Prometheus wants them: cores, bytes, bytes per second."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unit:
    """What a resource is counted in."""

    name: str
    """As metrics' names end."""
    scale: float
    """Base units in one of ours."""


UNITS = {
    "cpu": Unit("cores", 0.01),
    "memory": Unit("bytes", float(1 << 20)),
    "network": Unit("bytes_per_second", 125_000.0),
    "disk": Unit("bytes_per_second", float(1 << 20)),
}
"""Ours: percent of a core, MiB, Mbit/s and MiB/s."""
