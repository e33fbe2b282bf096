"""Baseline `random-fit`: each VM starts on any host with room for its size."""

from merkatd.cluster import Ints
from merkatd.placement.baselines.size_fitting import SizeRoom, in_order


def random_fit(room: SizeRoom) -> None:
    """Place VMs in order of arrival."""
    in_order(room, room.queue, _any, "has room for its size, and was drawn by chance")


def _any(room: SizeRoom, vm: int, hosts: Ints) -> int:  # noqa: ARG001 - a `Choice`
    return int(room.random.choice(hosts))
