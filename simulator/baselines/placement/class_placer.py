"""Placers that choose among classes of equal free room."""

from abc import ABC, abstractmethod

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NO_HOST
from simulator.baselines.placement.room_classes import RoomClasses


class ClassPlacer(ABC):
    """Implements `Placer` of the kernel. VMs are placed in order of arrival."""

    def start(self, room: Floats, capacity: Floats) -> None:
        """Take over all hosts."""
        self.classes = RoomClasses(room)
        self._typical = np.maximum(capacity.max(axis=0, initial=0.0), 1e-12)

    def update(self, hosts: Ints, room: Floats) -> None:
        """Take over the room of some hosts."""
        for host, row in zip(hosts.tolist(), room, strict=True):
            self.classes.set_room(host, row)

    def place(self, floors: Floats, random: np.random.Generator) -> Ints:
        """Return the host of each VM."""
        hosts = np.full(len(floors), NO_HOST)
        failed = set[bytes]()
        for vm, floor in enumerate(floors):
            if floor.tobytes() in failed:
                continue
            fitting = self.classes.with_room(floor)
            if not len(fitting):
                failed.add(floor.tobytes())
                continue
            hosts[vm] = host = self.choose(fitting, random)
            self.classes.take(host, floor)
        return hosts

    @abstractmethod
    def choose(self, fitting: Ints, random: np.random.Generator) -> int:
        """Return a host of one of the classes with room."""

    def first_of_best(self, fitting: Ints, score: Floats) -> int:
        """Return the first host among the classes with the least score."""
        best = fitting[score == score.min()]
        return min(self.classes.lowest(one) for one in best.tolist())

    def room_parts(self, fitting: Ints) -> Floats:
        """Return the free room of a host of each class: the sum of its parts of a large host."""
        parts: Floats = (self.classes.rooms(fitting) / self._typical).sum(axis=1)
        return parts
