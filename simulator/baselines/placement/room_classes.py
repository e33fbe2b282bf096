"""Hosts in classes of equal free room.

Data centres have few types of hosts and of VMs, so many hosts have the same room. A rule that looks
at the room alone compares classes instead of hosts: a few hundred instead of 65,536.
"""

import heapq

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NO_ROW


class RoomClasses:
    """The classes, and the hosts of each."""

    def __init__(self, room: Floats) -> None:
        count, width = room.shape
        self._rooms = np.zeros((64, width))
        self._sizes = np.zeros(64, dtype=np.int64)
        self._members: list[list[int]] = []
        self._lowest: list[list[int]] = []
        """A heap for each class; hosts that have left it are dropped when they come to the top."""
        self._known: dict[bytes, int] = {}
        self._unused: list[int] = []
        self._class_of = [NO_ROW] * count
        self._position = [0] * count
        self._room = room.copy()
        for host in range(count):
            self._enter(host)

    def set_room(self, host: int, room: Floats) -> None:
        """Change the free room of a host."""
        if (room == self._room[host]).all():
            return
        self._leave(host)
        self._room[host] = room
        self._enter(host)

    def take(self, host: int, floor: Floats) -> None:
        """Subtract what a VM needs."""
        self.set_room(host, self._room[host] - floor)

    def with_room(self, floor: Floats) -> Ints:
        """Return the classes with room for a VM."""
        count = len(self._members)
        fits = (self._rooms[:count] >= floor).all(axis=1) & (self._sizes[:count] > 0)
        return np.flatnonzero(fits)

    def rooms(self, classes: Ints) -> Floats:
        """Return [classes, resources]: the free room of a host of each class."""
        return self._rooms[classes]

    def sizes(self, classes: Ints) -> Ints:
        """Return the number of hosts of each class."""
        return self._sizes[classes]

    def lowest(self, one: int) -> int:
        """Return the first host of a class."""
        heap = self._lowest[one]
        while self._class_of[heap[0]] != one:
            heapq.heappop(heap)
        return heap[0]

    def member(self, one: int, number: int) -> int:
        """Return a host of a class by its number; the numbers change when hosts come and go."""
        return self._members[one][number]

    def _enter(self, host: int) -> None:
        key = self._room[host].tobytes()
        one = self._known.get(key)
        if one is None:
            one = self._known[key] = self._new_class()
            self._rooms[one] = self._room[host]
        self._class_of[host], self._position[host] = one, len(self._members[one])
        self._members[one].append(host)
        self._sizes[one] += 1
        heapq.heappush(self._lowest[one], host)

    def _new_class(self) -> int:
        if self._unused:
            return self._unused.pop()
        one = len(self._members)
        if one == len(self._sizes):
            self._rooms = np.concatenate([self._rooms, np.zeros_like(self._rooms)])
            self._sizes = np.concatenate([self._sizes, np.zeros_like(self._sizes)])
        self._members.append([])
        self._lowest.append([])
        return one

    def _leave(self, host: int) -> None:
        one, at = self._class_of[host], self._position[host]
        members = self._members[one]
        last = members.pop()
        if last != host:
            members[at], self._position[last] = last, at
        self._class_of[host] = NO_ROW
        self._sizes[one] -= 1
        if not members:
            del self._known[self._rooms[one].tobytes()]
            self._lowest[one].clear()
            self._unused.append(one)
