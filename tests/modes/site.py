"""A frontend that changes modes, answers plans and records every call to the cloud."""

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import ensureDeferred

from merkatd.database.scheduler.order_store import Mode
from merkatd.embedded.memory_transport import MemoryTransport
from merkatd.scheduler.execution.delegation import HandoverRequest, HostRoom
from tests.scheduler.frontend import PAPER_MARKET, Frontend
from tests.served import questions_at

READS = ("config", "info", "infoset", "infoextended", "monitoring", "table", "version")


class RecordingTransport(MemoryTransport):
    """A transport that records every call to the cloud."""

    def __init__(self, cloud: Any) -> None:
        super().__init__(cloud)
        self.calls: list[str] = []

    async def call(self, method: str, *arguments: Any) -> Any:
        """Record the call and make it."""
        self.calls.append(method)
        return await super().call(method, *arguments)


class Site(Frontend):
    """The embedded cloud, a scheduler and an administrator, in virtual time."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**({"markets": (PAPER_MARKET,)} | settings))

    def start_daemon(self) -> None:
        """Start a daemon, the first one or the successor of a killed one."""
        self.transport = self.recorder = RecordingTransport(self.cloud)
        super().start_daemon()
        self.questions = questions_at(self.scheduler)

    def ask(self, question: str, **arguments: Any) -> Any:
        """Return the answer to an administrator's question."""
        return self.result(ensureDeferred(self.questions.answer(question, arguments)))

    def mode(self, mode: Mode) -> None:
        """Order a mode."""
        self.ask("mode", to=str(mode), who="root")

    def minutes(self, count: int = 1) -> None:
        """Run this number of periods, one minute apart, and publish each to the questions."""
        for _ in range(count):
            self.scheduler.latest = self.period()
            self.clock.advance(60)

    def changes(self) -> list[str]:
        """Return the daemon's calls until now that change the cloud."""
        return [call for call in self.recorder.calls if call.rpartition(".")[2] not in READS]

    def places(self, vms: list[int], room: Mapping[int, HostRoom] | None = None) -> list[Any]:
        """Return the steps that OpenNebula receives for these VMs; all hosts are allowed.

        `room` is the capacity left to reserve on some hosts; the others have plenty.
        """
        hosts = frozenset(range(3))
        left = {host: HostRoom(cpu=1e6, memory_mib=1e6) for host in hosts} | dict(room or {})
        wanted = HandoverRequest(hosts=dict.fromkeys(vms, hosts), room=left)
        handed = self.result(ensureDeferred(self.scheduler.places(wanted, lambda: True)))
        self.clock.advance(60)
        return list(handed.steps)
