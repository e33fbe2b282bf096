"""Baseline `best-fit`: each VM starts on the fullest host with room for its size."""

from merkatd.cluster import Ints
from merkatd.placement.baselines.size_fitting import SizeRoom, free_parts, in_order


def best_fit(room: SizeRoom) -> None:
    """Place VMs in order of arrival."""
    in_order(room, room.queue, _fullest, "is the fullest host with room for its size")


def _fullest(room: SizeRoom, vm: int, hosts: Ints) -> int:  # noqa: ARG001 - a `Choice`
    return int(hosts[free_parts(room, hosts).argmin()])
