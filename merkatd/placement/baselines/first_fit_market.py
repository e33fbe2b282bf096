"""Baseline `first-fit`: each VM starts on the first host with room for its size."""

from merkatd.placement.baselines.size_fitting import SizeRoom, first_host, in_order


def first_fit(room: SizeRoom) -> None:
    """Place VMs in order of arrival."""
    in_order(room, room.queue, first_host, "is the first host with room for its size")
