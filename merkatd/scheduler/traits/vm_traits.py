"""The traits of a VM that its owner states in its template.

MERKAT_KIND is SERVICE or BATCH. MERKAT_DIRTY_RATE is the rate at which the VM writes to its memory,
in MiB/s.
"""

from collections.abc import Mapping
from typing import NamedTuple

from merkatd.cluster import VmKind
from merkatd.scheduler.traits.template_values import checked_number

_KIND, _DIRTY_RATE = "MERKAT_KIND", "MERKAT_DIRTY_RATE"
_KINDS = {kind.name: kind for kind in VmKind}


class VmTraits(NamedTuple):
    """The stated traits of a VM; None for those that its owner does not state."""

    kind: VmKind | None = None
    dirty_mib_s: float | None = None


NO_TRAITS = VmTraits()


def stated_traits(attributes: Mapping[str, str], problems: list[str]) -> VmTraits:
    """Return the traits in a VM's attributes; invalid ones are reported and left out."""
    kind = dirty_mib_s = None
    if _KIND in attributes:
        kind = _KINDS.get(attributes[_KIND].strip().upper())
        if kind is None:
            problems.append(
                f"{_KIND} must be {' or '.join(_KINDS)} (got {attributes[_KIND][:40]!r})"
            )
    if _DIRTY_RATE in attributes:
        dirty_mib_s = checked_number(attributes, _DIRTY_RATE, problems)
    return NO_TRAITS if kind is None and dirty_mib_s is None else VmTraits(kind, dirty_mib_s)
