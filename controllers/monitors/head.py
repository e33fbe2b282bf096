"""The VM that is the head of a batch system, as its controller talks to it."""

from collections.abc import Mapping
from typing import Any

from controllers.controller import Hand
from controllers.monitors.guests import Guests, keys_here, reach_here
from controllers.monitors.ssh import Said


class Head:
    """Of one virtual cluster the VM with the lowest id."""

    def __init__(self, guests: Guests) -> None:
        self._guests = guests

    @classmethod
    def of(cls, hand: Hand, cluster: str, parameters: Mapping[str, Any]) -> "Head":
        """Reached as the daemon's configuration says. ValueError where that says nothing."""
        reach = reach_here(parameters)
        if reach is None:
            raise ValueError("[bus] ssh_address, or the monitor's parameters.address, is missing")
        return cls(Guests(reach, keys_here(), hand, cluster))

    async def say(self, command: str) -> Said | None:
        """What a command comes to; None where the head can't be asked."""
        vms = await self._guests.running()
        if not vms:
            return None
        vm = min(vms)
        heard = (await self._guests.ask({vm: vms[vm]}, lambda _: command))[vm]
        return heard if isinstance(heard, Said) else None
