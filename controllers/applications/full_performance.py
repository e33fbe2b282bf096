"""Full performance: the sooner the work is done the better, at the latest by the deadline.

It tracks an allocation, all that its VMs can use, and suspends while not even a least part of it
can be had.
"""

from controllers.applications.iterative import Iterative
from controllers.applications.scene import Scene
from controllers.policies.deadline import Verdict
from controllers.policies.minimum import LEAST_PART, ensured, lacking
from controllers.policies.vertical import Performance


class FullPerformance(Iterative):
    """Tracks an allocation."""

    def judged(self, scene: Scene) -> Performance:
        """What its VMs have against all that they can use."""
        return lacking(scene.held)

    def why(self, judged: Performance) -> str:
        """What its tenant reads of a bid."""
        return f"its VMs have {1 / judged.value:.0%} of what they can use"

    def verdict(self, scene: Scene) -> Verdict:
        """By the part of their size that its VMs can have."""
        least = float(self.assignment.parameters.get("least_part", LEAST_PART))
        return ensured(scene.part, least, running=True)
