"""First fit: each VM, in order of arrival, starts on the first host with room."""

import numpy as np

from merkatd.cluster import Floats, Ints
from simulator.baselines.placement.room_tree import (
    KNOWN_FAILURES,
    place_first,
    set_rooms,
    tree_of_room,
)


class FirstFit:
    """Implements `Placer` of the kernel."""

    def start(self, room: Floats, capacity: Floats) -> None:  # noqa: ARG002 - room is all it needs
        """Take over all hosts."""
        self._tree = tree_of_room(room)

    def update(self, hosts: Ints, room: Floats) -> None:
        """Take over the room of some hosts."""
        set_rooms(self._tree, hosts, room)

    def place(self, floors: Floats, random: np.random.Generator) -> Ints:  # noqa: ARG002
        """Return the host of each VM."""
        failures = np.empty((KNOWN_FAILURES, floors.shape[1]))
        return place_first(self._tree, floors, np.arange(len(floors)), failures)
