"""What a VM's template wishes for: bids, floors and caps, read once at the border.

MERKAT_BID_CPU and MERKAT_BID_MEMORY are credits per period; MERKAT_MIN_CPU and
MERKAT_MAX_CPU are percent of a core, MERKAT_MIN_MEMORY and MERKAT_MAX_MEMORY MiB. Where network
and disk are traded, the same can be said of NETWORK, in Mbit/s, and of DISK, in MiB/s. All of it
can be said as MERKAT = [ BID_CPU = ..., ... ] too; the adapter makes one of the other.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

MANAGED = "MERKAT_MANAGED"
"""Once took a VM out of the market, whoever set it. It has no effect, and its owner is told so."""

MOST = 1e15
"""No wish is larger: what is charged must fit whole micro-credits."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was said, by resource, and what was said wrongly."""

    bid: Mapping[str, float]
    least: Mapping[str, float]
    most: Mapping[str, float]
    problems: tuple[str, ...]
    """Each names the attribute, its value and what would be right."""


def wishes(attributes: Mapping[str, str], resources: tuple[str, ...]) -> Wishes:
    """Read the attributes of one VM; wrong ones are left out and named."""
    problems: list[str] = []
    found: dict[str, dict[str, float]] = {"BID": {}, "MIN": {}, "MAX": {}}
    for name, what, resource in _names(resources):
        if name in attributes:
            value = amount(attributes[name])
            if value is None:
                said = f"{name} = {attributes[name][:40]!r}"
                problems.append(f"{said}: expected a number from 0 to {MOST:g}")
            else:
                found[what][resource] = value
    for resource, least in list(found["MIN"].items()):
        most = found["MAX"].get(resource, math.inf)
        if least > most:
            name = resource.upper()
            problems.append(
                f"MERKAT_MIN_{name} = {least:g}: at most MERKAT_MAX_{name} = {most:g} is right"
            )
            found["MIN"][resource] = most
    if MANAGED in attributes:
        problems.append(
            f"{MANAGED} = {attributes[MANAGED][:40]!r} has no effect: only an administrator takes"
            " VMs out of the market, by their group or their host's cluster"
        )
    return Wishes(found["BID"], found["MIN"], found["MAX"], tuple(problems))


@cache
def _names(resources: tuple[str, ...]) -> tuple[tuple[str, str, str], ...]:
    """All attributes there can be: each with what it is about."""
    return tuple(
        (f"MERKAT_{what}_{resource.upper()}", what, resource)
        for what in ("BID", "MIN", "MAX")
        for resource in resources
    )


def text_hash(attributes: Mapping[str, str]) -> str:
    """The same as long as nobody changes a bid in the template."""
    said = sorted((name, value) for name, value in attributes.items() if "_BID_" in name)
    return blake2b(repr(said).encode(), digest_size=8).hexdigest()


def amount(text: str) -> float | None:
    """The number in a text; None where it is none that can be wished for."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= MOST else None
