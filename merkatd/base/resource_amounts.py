"""Amounts of resources in sentences, with their units and names."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

UNITS_IN_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cpu": "% of CPU",
        "memory": "MiB of memory",
        "network": "Mbit/s of network",
        "disk": "MiB/s of disk",
    }
)
"""The units and names of resources in a sentence; other resources appear by their key."""


def resource_amount(resource: str, value: float) -> str:
    """Return an amount with its unit: 150 % of CPU, 2,048 MiB of memory."""
    unit = UNITS_IN_WORDS.get(resource, resource)
    return f"{value:,.1f}".removesuffix(".0") + f" {unit}".rstrip()


def resource_amounts(resources: Iterable[str], values: Iterable[float]) -> str:
    """Return the amounts of several resources: 150 % of CPU and 2,048 MiB of memory."""
    *most, last = map(resource_amount, resources, values)
    return f"{', '.join(most)} and {last}" if most else last
