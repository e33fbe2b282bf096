"""The writer of messages to VMs: several at a time, for a limited time, in a fair order.

# Note [The order of messages]

A message of a VM can change in every period: "3 of 5 hosts are full" becomes "4 of 5 hosts are
full". In the order of VM ids, the VMs with low ids would then use all the time of every period, and
the others would never get a message. So the VM that was written to longest ago comes first, and a
VM that was never written to comes before all others. Example: with time for 50 messages and 200 VMs
whose messages change in each period, each VM is written to once in four periods.
"""

from collections import deque
from collections.abc import Mapping

from twisted.internet.defer import Deferred, DeferredList, ensureDeferred
from twisted.logger import Logger

from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.scheduler.context import PeriodContext

_AT_A_TIME = 4

_log = Logger()


class MessageWriter:
    """Writes messages to OpenNebula and remembers when each VM was written to."""

    def __init__(self) -> None:
        self._written: dict[int, int] = {}
        """By VM id: the number of the last message written to this VM, counting all messages."""
        self._count = 0

    async def tell(
        self,
        context: PeriodContext,
        messages: Mapping[int, str],
        shown: Mapping[int, str],
    ) -> None:
        """Write the messages that differ from those `shown`, as many as the time allows.

        Both are by VM id. An empty text removes a message.
        """
        # Every VM may have a new message, so sorting runs outside the reactor.
        waiting = await context.executor.run(lambda: self._in_order(messages, shown))

        async def write() -> None:
            while waiting:
                vm = waiting.popleft()
                if not await self._one(context, vm, messages[vm]):
                    waiting.clear()

        writing = [ensureDeferred(write()) for _ in range(min(_AT_A_TIME, len(waiting)))]
        await _all_or_the_limit(context, writing)
        if waiting:
            _log.info("{count} VMs get their message in a later period", count=len(waiting))
            waiting.clear()

    def _in_order(self, messages: Mapping[int, str], shown: Mapping[int, str]) -> deque[int]:
        """Return the VMs with new messages, the one that was written to longest ago first."""
        news = [vm for vm, message in messages.items() if shown.get(vm, "") != message]
        self._written = {vm: at for vm, at in self._written.items() if vm in messages}
        return deque(sorted(news, key=lambda vm: (self._written.get(vm, -1), vm)))

    async def _one(self, context: PeriodContext, vm: int, message: str) -> bool:
        """Write one message; return False if OpenNebula does not answer."""
        self._count += 1
        self._written[vm] = self._count
        try:
            await context.cloud.tell(vm, message)
        except CloudUnreachableError as error:
            _log.warn("The message of VM {vm} was not written: {error}", vm=vm, error=str(error))
            return False
        return True


async def _all_or_the_limit(context: PeriodContext, writing: list[Deferred[None]]) -> None:
    """Return when all are done or the time is over; later answers are still handled."""
    over: Deferred[None] = Deferred()

    def end(_: object = None) -> None:
        if not over.called:
            over.callback(None)

    DeferredList(writing, consumeErrors=True).addCallback(end)
    alarm = context.clock.callLater(context.rhythm.tell_limit_s, end)
    await over
    if alarm.active():
        alarm.cancel()
