"""Full performance: the sooner the work is done the better, at the latest by the deadline.

It tracks an allocation, all that its VMs can use, and suspends while not even a least part of it
can be had.
"""

from controllers.applications.iterative import Iterative
from controllers.applications.scene import Scene
from controllers.policies.minimum import lacking
from controllers.policies.vertical import Performance


class FullPerformance(Iterative):
    """Tracks an allocation."""

    def judged(self, scene: Scene) -> Performance:
        """What its VMs have against all that they can use."""
        return lacking(scene.held)

    def why(self, judged: Performance) -> str:
        """What its tenant reads of a bid."""
        return f"its VMs have {1 / judged.value:.0%} of what they can use"
