"""Best fit: each VM starts on the host with room that has the least free, the first of equals."""

import numpy as np

from merkatd.cluster import Ints
from simulator.baselines.placement.class_placer import ClassPlacer


class BestFit(ClassPlacer):
    """Fills the fullest hosts."""

    def choose(self, fitting: Ints, random: np.random.Generator) -> int:  # noqa: ARG002
        """Return the fullest host."""
        return self.first_of_best(fitting, self.room_parts(fitting))
