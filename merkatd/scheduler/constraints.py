"""What a cloud's own rules say about who may be where, in the period's terms."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from merkatd.cluster import Bools, Floats, Ints


class Stock(Protocol):
    """What only so many VMs can have, as it is counted down while places are given away."""

    def take(self, vm: int, host: int) -> str | None:
        """Set aside what the VM needs on the host (ids); why that can't be, and then nothing is."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Constraints:
    """Rows of VMs and hosts are those of the observation."""

    vm_class: Ints
    """The class of hosts that may take the VM, -1: any host may."""
    class_name: tuple[str, ...]
    """In words, each once."""
    allowed: Bools
    """[classes, hosts]"""
    rank: Floats
    """[classes, hosts]: among hosts that are equally good the highest is preferred."""
    unplaceable: Mapping[int, str] = field(default_factory=dict)
    """By VM id, of those that no host may take: which constraint that is, and what would help."""
    remarks: Mapping[int, str] = field(default_factory=dict)
    """By VM id: what was said wrongly, but keeps it from nothing."""
    vm_role: Ints
    """-1: none."""
    role_name: tuple[str, ...] = ()
    role_policy: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """`RolePolicy` among the role's own members,"""
    role_pairs: tuple[tuple[int, int, int], ...] = ()
    """and of two roles, with their rows first."""
    fixed: Bools
    """[vms]: OpenNebula can't move it while it runs."""
    stock: Callable[[], Stock] | None = None
    """What is scarce, counted afresh at each call."""
