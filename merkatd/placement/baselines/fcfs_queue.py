"""Baseline `fcfs`: first come, first served; a VM without room keeps all later ones waiting.

A VM that no host could hold, even without other VMs, keeps none waiting.
"""

from merkatd.placement.baselines.size_fitting import NO_SIZE, SizeRoom, first_host

BEHIND = "a VM that came before waits for room"


def fcfs(room: SizeRoom) -> None:
    """Place VMs in order of arrival until one has no room."""
    blocked = False
    for vm in room.queue.tolist():
        hosts = room.hosts_for(vm)
        if blocked or not len(hosts):
            room.wait(vm, BEHIND if blocked else NO_SIZE)
            blocked = blocked or room.fits_if_empty(vm)
            continue
        room.start(vm, first_host(room, vm, hosts), "is the first host with room, in its turn")
