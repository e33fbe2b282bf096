"""Platforms in virtual time with real controllers and guests that compute."""

from pathlib import Path
from typing import Any

from controllers.__main__ import class_of
from controllers.controller import Controller
from controllers.monitors.iteration_count import measured_values, of_guest
from merkatd.embedded.machines.guest_simulation import SimulatedGuest
from merkatd.protocol.bus_messages import Measured, Remember, Stored
from merkatd.protocol.controller_kinds import CONTROLLERS
from merkatd.protocol.platform_messages import ActionOutcome, Kinds, News
from tests.platforms.site import Site

VM = """\
CPU="1"
VCPU="1"
MEMORY="1024"
EMBEDDED=[WORK="{work}",ITERATIONS="{steps}",DEMAND="1",MEMORY_USE="256"]
"""


class Line:
    """A controller's connection to the manager."""

    def __init__(self, site: "Live", platform: int) -> None:
        self._site = site
        self._platform = platform
        self._number = 0

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Pass on a message as the bus does."""
        manager = self._site.manager
        if isinstance(body, Remember):
            await manager.remember(self._platform, body.memory)
            return Stored()
        self._number += 1
        given = action_id or f"{self._platform}-{self._number}-{self._site.clock.seconds()}"
        outcome: ActionOutcome = await manager.act(self._platform, given, body)
        assert outcome.accepted, (body, outcome)
        self._site.asked.append((self._platform, body))
        return outcome


class Live(Site):
    """Each period ends with the monitors' data and the controllers' reactions to the news."""

    def __init__(self, **settings: Any) -> None:
        self.asked: list[tuple[int, Any]] = []
        self._running: dict[int, Controller] = {}
        self.folder = Path("/nonexistent")
        super().__init__(**settings)

    def start_daemon(self) -> None:
        """Start a daemon with all kinds of controllers."""
        super().start_daemon()
        offered = Kinds(tuple(sorted(CONTROLLERS)), ())
        self.notes.kinds = lambda: offered  # type: ignore[method-assign]

    def period(self) -> Any:
        """Run the period and then every controller."""
        self.notes.news.clear()
        announcement = super().period()
        for platform in self._running.keys() - self.notes.running.keys():
            del self._running[platform]
        for news in list(self.notes.news):
            self._turn(news)
        return announcement

    def guest(self, vm: int) -> SimulatedGuest | None:
        """Return the cloud's simulated guest of a VM."""
        guest: SimulatedGuest | None = self.cloud.guests.guest(vm)
        return guest

    def requests(self, platform: int, kind: type) -> list[Any]:
        """Return the controller's requests of one kind."""
        return [body for asker, body in self.asked if asker == platform and isinstance(body, kind)]

    def _turn(self, news: News) -> None:
        assignment = self.notes.running[news.platform]
        controller = self._running.get(news.platform)
        if controller is None:
            kind = class_of("controller", assignment.controller, self.folder)
            controller = kind(assignment, Line(self, news.platform))
            self._running[news.platform] = controller
            self.wait(controller.on_start())
        for terms in assignment.clusters:
            vms = [vm.vm for vm in news.vms if vm.cluster == terms.name]
            values = self._seen(vms)
            if values:
                measured = Measured(cluster=terms.name, at_s=self.clock.seconds(), values=values)
                self.wait(controller.take(measured))
        self.wait(controller.take(news))

    def _seen(self, vms: list[int]) -> dict[str, float]:
        guests = {vm: self.guest(vm) for vm in vms}
        counts = {
            vm: of_guest({"log": guest.log}) for vm, guest in guests.items() if guest is not None
        }
        return measured_values(counts, {}, self.clock.seconds())
