"""Full deadline: the work is worth its budget if it is done in time, and else its opposite.

It suspends while the price is too high for the pace that is needed, and gives up when the
deadline can't be met any more, however much was spent; with `give_up = false` it goes on till then.
"""

from controllers.applications.iterative import Iterative
from controllers.applications.scene import Scene
from controllers.policies.deadline import performance
from controllers.policies.vertical import Performance


class FullDeadline(Iterative):
    """Tracks the pace that is needed (t_ref)."""

    def judged(self, scene: Scene) -> Performance:
        """An iteration's time against the one that is needed."""
        return performance(scene.work, scene.usable_s, scene.pace_s)

    @property
    def gives_up(self) -> bool:
        """Unless its tenant wants to have what is made by the deadline."""
        return self.assignment.give_up
