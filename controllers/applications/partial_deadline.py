"""Partial deadline: what is done by the deadline is worth its part of the budget.

It runs until then whatever happens, and suspends only while not even a least part of what its
VMs can use can be had.
"""

from controllers.applications.iterative import Iterative
from controllers.applications.scene import Scene
from controllers.policies.deadline import performance
from controllers.policies.vertical import Performance


class PartialDeadline(Iterative):
    """Tracks the pace that is needed; goes on late."""

    def judged(self, scene: Scene) -> Performance:
        """An iteration's time against the one that is needed."""
        return performance(scene.work, scene.usable_s, scene.pace_s)
