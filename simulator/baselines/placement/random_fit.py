"""Random fit: each VM starts on any host with room, all equally likely."""

import numpy as np

from merkatd.cluster import Ints
from simulator.baselines.placement.class_placer import ClassPlacer


class RandomFit(ClassPlacer):
    """Looks at nothing but room."""

    def choose(self, fitting: Ints, random: np.random.Generator) -> int:
        """Return a random host."""
        sizes = self.classes.sizes(fitting)
        number = int(random.integers(sizes.sum()))
        at = int(np.searchsorted(np.cumsum(sizes), number, side="right"))
        return self.classes.member(int(fitting[at]), number - int(sizes[:at].sum()))
