"""FFD-sum: the largest VM first, each on the first of the largest hosts (Paper IV, Eq. 19 and 20).

The volume of a VM or host is the sum of its amounts, each weighed by the total demand of waiting
VMs for the resource, as a part of the total capacity.
"""

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NO_HOST
from simulator.baselines.placement.room_tree import (
    KNOWN_FAILURES,
    place_first,
    set_rooms,
    tree_of_room,
)


class FfdSum:
    """Implements `Placer` of the kernel."""

    def start(self, room: Floats, capacity: Floats) -> None:
        """Take over all hosts."""
        self._room = room.copy()
        self._total = np.maximum(capacity.sum(axis=0), 1e-12)
        self._sizes, self._size_of = np.unique(capacity, axis=0, return_inverse=True)
        self._ranks: Ints = np.zeros(len(self._sizes), dtype=np.int64)
        """The rank of each size among the volumes; 0 is the largest."""
        self._sort()

    def _sort(self) -> None:
        """Number the hosts from the largest on, equal ones as they are."""
        self._hosts = np.argsort(self._ranks[self._size_of], kind="stable")
        self._number = np.argsort(self._hosts)
        self._tree = tree_of_room(self._room[self._hosts])

    def update(self, hosts: Ints, room: Floats) -> None:
        """Take over the room of some hosts."""
        self._room[hosts] = room
        set_rooms(self._tree, self._number[hosts], room)

    def place(self, floors: Floats, random: np.random.Generator) -> Ints:  # noqa: ARG002
        """Return the host of each VM."""
        weights = floors.sum(axis=0) / self._total
        ranks = np.unique(-_volumes(self._sizes, weights), return_inverse=True)[1]
        if not np.array_equal(ranks, self._ranks):
            self._ranks = ranks
            self._sort()
        order = np.argsort(-_volumes(floors, weights), kind="stable")
        failures = np.empty((KNOWN_FAILURES, floors.shape[1]))
        numbers = place_first(self._tree, floors, order, failures)
        placed = np.flatnonzero(numbers != NO_HOST)
        hosts = np.full(len(floors), NO_HOST)
        hosts[placed] = self._hosts[numbers[placed]]
        np.subtract.at(self._room, hosts[placed], floors[placed])
        return hosts


def _volumes(amounts: Floats, weights: Floats) -> Floats:
    """Return the weighted sum of each row (Eq. 19)."""
    volumes: Floats = (amounts * weights).sum(axis=1)
    return volumes
