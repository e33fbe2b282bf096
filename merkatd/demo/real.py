"""Real guests while a demo plays: they follow its cloud, and what they did is in their logs."""

from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from merkatd.base.clock import Threads
from merkatd.demo.domains import Kind, described, disk
from merkatd.demo.following import Start
from merkatd.demo.guests import Guests
from merkatd.demo.tenant import Player, Tell
from merkatd.opennebula import Client
from merkatd.opennebula.pools.vm_pool import read_page
from merkatd.opennebula.rpc.client import ANY_STATE
from merkatd.opennebula.rpc.errors import OneError

_LATELY_S = 3.0
_HOST = 0
"""The embedded cloud's name for this machine."""


class RealGuests:
    """The guests of a demo, all on this machine."""

    def __init__(self, reactor: Any, kind: Kind, minute_s: float, directory: Path) -> None:
        """Raises GuestsError where there can be none; guests boot from a file in `directory`."""
        self._seconds = reactor.seconds
        self._lately: deque[tuple[float, Mapping[int, float]]] = deque()
        self._kind = kind
        self._minute_s = minute_s
        self._disk = directory / "guest.img"
        self._disk.write_bytes(disk())
        self._disk.chmod(0o644)
        self._guests = Guests({_HOST: kind.address}, self._described)
        self._thread = Threads(reactor, 1, name="guests")

    async def turn(self, administrator: Client, tell: Tell) -> Mapping[int, float]:
        """Let guests be where the cloud has its VMs; core-minutes that each ever got, by VM."""
        vms = read_page(await administrator.vm_range(0, None, ANY_STATE)).vms
        for why in await self._thread.run(lambda: self._guests.follow(vms)):
            tell("a guest fails", why)
        used_s = await self._thread.run(self._guests.cpu_s)
        self._lately.append((self._seconds(), used_s))
        while self._lately[-1][0] - self._lately[0][0] > _LATELY_S:
            self._lately.popleft()
        return {vm: seconds / self._minute_s for vm, seconds in used_s.items()}

    def cores(self, vms: Iterable[int]) -> float:
        """How many cores these VMs really got together in the last few seconds."""
        if len(self._lately) < 2:
            return 0.0
        (began_s, before), (ended_s, after) = self._lately[0], self._lately[-1]
        got_s = sum(after.get(vm, 0.0) - before.get(vm, 0.0) for vm in vms)
        return got_s / (ended_s - began_s)

    async def end_finished(self, administrator: Client, player: Player) -> None:
        """Guests that have done their work turn themselves off."""
        now = player.now
        if now is None:
            return
        for vm in sorted(now.alive):
            if now.vms.get(vm, 0.0) >= now.errand.work:
                try:
                    await administrator.action("poweroff-hard", vm)
                except OneError:
                    # It is off already, or on its way somewhere: there is another turn.
                    continue

    async def close(self) -> None:
        """End all guests."""
        await self._thread.run(self._guests.close)
        self._thread.stop()

    def _described(self, start: Start) -> str:
        return described(self._kind, start.vm, start.vcpus, start.memory_mib, str(self._disk))
