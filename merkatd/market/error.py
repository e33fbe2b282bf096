"""The allocation error (Eq. 2), and the shortfall, which is its half that hurts.

The first allocation is what a VM would get if the whole market were one host; the other is
what it gets on the host it is on. The error counts a surplus like a lack; the shortfall
counts only the lack, and weighs it by what the VM bids.
"""

import numpy as np

from merkatd.cluster.arrays import Floats


def errors(first: Floats, on_host: Floats) -> Floats:
    """Eq. 2 for each VM and resource: |first - on_host| / first, 0 where the first is 0."""
    return np.divide(np.abs(first - on_host), first, out=np.zeros_like(first), where=first > 0)


def shortfalls(first: Floats, on_host: Floats) -> Floats:
    """By VM: the largest part of its first allocation that it lacks, over the resources."""
    lack = np.maximum(first - on_host, 0.0)
    part = np.divide(lack, first, out=np.zeros_like(first), where=first > 0)
    largest: Floats = part.max(axis=1, initial=0.0)
    return largest


def weighted_shortfall(bids: Floats, first: Floats, on_host: Floats) -> float:
    """Of a cloud: the sum over its VMs of all they bid times their shortfall."""
    return float(np.dot(bids.sum(axis=1), shortfalls(first, on_host)))
