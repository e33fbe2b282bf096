"""Baseline `worst-fit`: each VM starts on the emptiest host with room for its size."""

from merkatd.cluster import Ints
from merkatd.placement.baselines.size_fitting import SizeRoom, free_parts, in_order


def worst_fit(room: SizeRoom) -> None:
    """Place VMs in order of arrival."""
    in_order(room, room.queue, _emptiest, "is the emptiest host with room for its size")


def _emptiest(room: SizeRoom, vm: int, hosts: Ints) -> int:  # noqa: ARG001 - a `Choice`
    return int(hosts[free_parts(room, hosts).argmax()])
