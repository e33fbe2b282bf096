"""Full deadline: the work is worth its budget if it is done in time, and else its opposite.

It suspends while the price is too high for the pace that is needed, and gives up when the
deadline can't be met any more, however much was spent.
"""

from controllers.applications.iterative import Iterative
from controllers.applications.scene import Scene
from controllers.policies.deadline import Verdict, performance, verdict
from controllers.policies.vertical import Performance


class FullDeadline(Iterative):
    """Tracks the pace that is needed (t_ref)."""

    def judged(self, scene: Scene) -> Performance:
        """An iteration's time against the one that is needed."""
        return performance(scene.work, scene.usable_s, scene.pace_s)

    def verdict(self, scene: Scene) -> Verdict:
        """By what an iteration could take at what may be spent."""
        return verdict(
            scene.work, scene.left_s, running=True, reachable_step_s=scene.reachable_step_s
        )
