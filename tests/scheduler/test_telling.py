"""Every VM gets its message in time, and a call that hangs delays no other."""

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from merkatd.base.clock import Inline
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.execution.message_writer import MessageWriter

CALL_S = 0.1
LIMIT_S = 5.0


class Server:
    """An OpenNebula that takes a tenth of a second for each message and hangs for some."""

    def __init__(self, hangs: frozenset[int] = frozenset()) -> None:
        self.clock = Clock()
        self.shown: dict[int, str] = {}
        self.calls = 0
        self.away = False
        self._hangs = hangs

    async def tell(self, vm: int, message: str) -> None:
        """Show a message, as the cloud does."""
        self.calls += 1
        if self.away:
            raise CloudUnreachableError("connection refused")
        answered: Deferred[None] = Deferred()
        if vm not in self._hangs:
            self.clock.callLater(CALL_S, answered.callback, None)
        await answered
        self.shown[vm] = message

    def period(self, telling: MessageWriter, messages: dict[int, str]) -> float:
        """Write the messages of a period and return the seconds that this took."""
        rhythm = Rhythm(tell_limit_s=LIMIT_S)
        world: Any = SimpleNamespace(clock=self.clock, rhythm=rhythm, cloud=self, executor=Inline())
        begun_s = self.clock.seconds()
        over: list[object] = []
        shown = {vm: message for vm, message in self.shown.items() if message}
        ensureDeferred(telling.tell(world, messages, shown)).addBoth(over.append)
        while not over:
            self.clock.advance(CALL_S)
        assert over == [None]
        return self.clock.seconds() - begun_s


def test_messages_that_change_in_every_period_reach_every_vm() -> None:
    """Two hundred VMs get their message in each period, in turn."""
    server, telling = Server(), MessageWriter()
    vms = range(1000)
    written: dict[int, int] = {}
    for period in range(1, 9):
        before = dict(server.shown)
        assert server.period(telling, dict.fromkeys(vms, f"{period} hosts are full")) < LIMIT_S + 1
        for vm, message in server.shown.items():
            if before.get(vm) != message:
                written[vm] = written.get(vm, 0) + 1
    assert set(written) == set(vms)
    assert max(written.values()) - min(written.values()) <= 1


def test_a_message_that_hangs_delays_no_other() -> None:
    """The others are written meanwhile, and the period continues after its time limit."""
    server, telling = Server(frozenset({0, 3})), MessageWriter()
    took_s = server.period(telling, dict.fromkeys(range(50), "no host is free"))
    assert took_s <= LIMIT_S + CALL_S
    assert set(server.shown) == set(range(50)) - {0, 3}


def test_a_server_that_is_away_gets_no_call_for_every_vm() -> None:
    """No other message is started after the first failure."""
    server, telling = Server(), MessageWriter()
    server.away = True
    server.period(telling, dict.fromkeys(range(50), "no host is free"))
    assert server.calls <= 4


def test_messages_already_shown_are_not_written_again() -> None:
    """Only new messages and removals are written."""
    server, telling = Server(), MessageWriter()
    server.period(telling, {1: "no host is free", 2: "its credits are running out"})
    server.period(telling, {1: "no host is free", 2: ""})
    assert server.calls == 3
    assert server.shown == {1: "no host is free", 2: ""}
