"""A frontend whose mode is changed, whose plans are answered, and whose every call is heard."""

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import ensureDeferred

from merkatd.database.scheduler.order_store import Mode
from merkatd.embedded.memory_transport import MemoryTransport
from merkatd.scheduler.execution.delegation import HandoverRequest, HostRoom
from tests.scheduler.frontend import PAPER_MARKET, Frontend
from tests.served import questions_at

READS = ("config", "info", "infoset", "infoextended", "monitoring", "table", "version")


class Heard(MemoryTransport):
    """The daemon's way to the cloud, on which every call is heard."""

    def __init__(self, cloud: Any) -> None:
        super().__init__(cloud)
        self.calls: list[str] = []

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call it."""
        self.calls.append(method)
        return await super().call(method, *arguments)


class Site(Frontend):
    """The embedded cloud, a scheduler and an administrator, in virtual time."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**({"markets": (PAPER_MARKET,)} | settings))

    def start_daemon(self) -> None:
        """A daemon, the first or after one was killed, and who asks it."""
        self.transport = self.heard = Heard(self.cloud)
        super().start_daemon()
        self.questions = questions_at(self.scheduler)

    def ask(self, question: str, **arguments: Any) -> Any:
        """The answer to an administrator's question."""
        return self.result(ensureDeferred(self.questions.answer(question, arguments)))

    def mode(self, mode: Mode) -> None:
        """Order a mode."""
        self.ask("mode", to=str(mode), who="root")

    def minutes(self, count: int = 1) -> None:
        """So many periods, a minute apart, as a daemon has them that is asked about them."""
        for _ in range(count):
            self.scheduler.latest = self.period()
            self.clock.advance(60)

    def changes(self) -> list[str]:
        """The daemon's calls until now that change something."""
        return [call for call in self.heard.calls if call.rpartition(".")[2] not in READS]

    def places(self, vms: list[int], room: Mapping[int, HostRoom] | None = None) -> list[Any]:
        """What OpenNebula is handed where it asks for places, all hosts being right.

        `room`: what it has left to reserve on some hosts, where that is not plenty.
        """
        hosts = frozenset(range(3))
        left = {host: HostRoom(cpu=1e6, memory_mib=1e6) for host in hosts} | dict(room or {})
        wanted = HandoverRequest(hosts=dict.fromkeys(vms, hosts), room=left)
        handed = self.result(ensureDeferred(self.scheduler.places(wanted, lambda: True)))
        self.clock.advance(60)
        return list(handed.steps)
