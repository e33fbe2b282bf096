"""Baseline `ffd-sum`: the largest VM first, on the first of the largest hosts with room.

Sizes are compared by volume: the sum of a VM's or host's amounts, each weighed by the total demand
of waiting VMs for the resource, as a part of the total capacity (Paper IV, Eq. 19 and 20).
"""

import numpy as np

from merkatd.cluster import Floats, Ints
from merkatd.placement.baselines.size_fitting import SizeRoom, in_order


def ffd_sum(room: SizeRoom) -> None:
    """Place VMs from the largest on."""
    total = np.maximum(room.capacity.sum(axis=0), 1e-12)
    weights: Floats = room.sizes[room.queue].sum(axis=0) / total
    volumes = room.sizes[room.queue] @ weights
    priority = room.problem.rules.priority[room.queue]
    order = room.queue[np.lexsort((-volumes, -priority))]
    hosts = room.capacity @ weights

    def largest(_room: SizeRoom, _vm: int, fitting: Ints) -> int:
        return int(fitting[hosts[fitting].argmax()])

    in_order(room, order, largest, "is the first of the largest hosts with room for its size")
