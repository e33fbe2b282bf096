"""Cooldowns of a controller that changes the number of VMs: one for growing, one for shrinking.

A cooldown begins with the latest change of a cluster's size, in either direction. A release of VMs
that can't be paid for waits for no cooldown in `elastic`, but it begins both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from merkatd.base.parameter_bounds import number

_CHANGED: Final = "sizes changed"
"""The key of the times of changes, by cluster, in a controller's memory: no cluster's name."""


@dataclass(frozen=True, slots=True)
class Cooldown:
    """The cooldowns of a template, and the changes that a controller remembers."""

    memory: dict[str, Any]
    grow_s: float
    shrink_s: float

    @classmethod
    def of(cls, memory: dict[str, Any], parameters: Mapping[str, Any]) -> "Cooldown":
        """Return the cooldowns that the parameters name; by default there are none."""
        return cls(
            memory, number(parameters, "grow_cooldown_s"), number(parameters, "shrink_cooldown_s")
        )

    def begin(self, cluster: str, now_s: float) -> None:
        """Begin both cooldowns of a cluster whose size changes now."""
        if self.grow_s or self.shrink_s:
            self.memory[_CHANGED] = {**self.memory.get(_CHANGED, {}), cluster: now_s}

    def may_grow(self, cluster: str, now_s: float) -> bool:
        """Return whether the cluster may grow now."""
        return self._is_over(cluster, now_s, self.grow_s)

    def may_shrink(self, cluster: str, now_s: float) -> bool:
        """Return whether the cluster may shrink now."""
        return self._is_over(cluster, now_s, self.shrink_s)

    def _is_over(self, cluster: str, now_s: float, lasts_s: float) -> bool:
        changed_s = self.memory.get(_CHANGED, {}).get(cluster)
        # A clock that was set back ends a cooldown, which else would last for the difference.
        return changed_s is None or not 0.0 <= now_s - float(changed_s) < lasts_s
