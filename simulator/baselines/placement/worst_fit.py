"""Worst fit: each VM starts on the host that has the most free, the first of equals."""

import numpy as np

from merkatd.cluster import Ints
from simulator.baselines.placement.class_placer import ClassPlacer


class WorstFit(ClassPlacer):
    """Spreads VMs over the emptiest hosts."""

    def choose(self, fitting: Ints, random: np.random.Generator) -> int:  # noqa: ARG002
        """Return the emptiest host."""
        return self.first_of_best(fitting, -self.room_parts(fitting))
