"""Hosts that sleep: their states in OpenNebula, around the commands that switch them off and on.

# Note [Hosts that sleep]

A sleeping host is OFFLINE and has the attribute MERKAT_ASLEEP (Note [Marks of hosts]). So any
daemon knows that it can be woken, also after a restart, and administrators see it with `onehost
show`. The attribute comes first: if the daemon dies after it, the host is not OFFLINE, and so not
asleep.
OFFLINE comes before the switch: OpenNebula deploys nothing there from then on. It may just have
accepted a deployment, of which the host shows nothing for a moment, so the host is read a little
later. If the daemon dies before the switch, the host counts as asleep although it runs, and can be
woken like any other.

A command that fails may have switched the host off all the same: `ssh` reports an error if the host
cuts the connection. So the host is enabled, and keeps a mark until OpenNebula has monitored it. If
OpenNebula finds an error instead, the host can be woken.

An administrator may change a host's state at any time, also between the observation and a step. So
each step reads the host first. A sleeping host that an administrator enables, and takes offline
later for maintenance, must not be woken. So outlived marks are removed. A daemon that only watches
removes none, but remembers them.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from twisted.logger import Logger

from merkatd.base.clock import Clock
from merkatd.base.deferreds import wait_seconds
from merkatd.cluster import Bools, Ints, Sleep, Wake
from merkatd.cluster.columns import is_one_of
from merkatd.opennebula.pools.host_pool import ASLEEP, words_of
from merkatd.opennebula.pools.one_states import DISABLED, OFFLINE, TAKES_VMS
from merkatd.opennebula.rpc.client import Client
from merkatd.opennebula.rpc.errors import OneError
from merkatd.opennebula.rpc.xml_elements import (
    BrokenError,
    UnreadableError,
    children,
    ids,
    only_child,
    text,
    whole,
)
from merkatd.opennebula.sleep_marks import (
    NO_MARK,
    Mark,
    MarkedState,
    marked_state,
    sleep_mark,
    waking_mark,
)
from merkatd.scheduler.base.ports import ReplyKind, StepReply
from merkatd.scheduler.base.power_port import PowerPort

_log = Logger()

_ENABLED, _TAKEN_OFFLINE = 0, 2
"""The states that a call can set."""
_SETTLES_S = 5.0
"""The time after which a host shows each VM whose deployment was accepted."""


@dataclass(frozen=True, slots=True)
class _HostNow:
    """A host as OpenNebula shows it at this moment."""

    name: str
    marked: MarkedState
    vms: Sequence[int]

    @property
    def why_awake(self) -> str:
        """Why the host must stay awake, "" if it may sleep."""
        if self.vms:
            return f"VM {min(self.vms)} is on it"
        return "" if self.marked.state in TAKES_VMS else "OpenNebula does not use it now"


class HostSwitch:
    """Lets hosts sleep and wakes them (see Note [Hosts that sleep])."""

    def __init__(self, client: Client, power: PowerPort, clock: Clock) -> None:
        """`power` switches the hosts themselves."""
        self._client = client
        self._clock = clock
        self._power = power
        self._going: set[int] = set()
        """The hosts for which a step is under way."""
        self._outlived: dict[int, str] = {}
        """By host id: the text of the mark that means nothing any more."""
        self._asked: tuple[str, ...] = ()
        self._served: Bools = np.zeros(0, dtype=bool)

    def which(self, names: Sequence[str]) -> Bools:
        """Return [hosts]: whether the host of each name can sleep."""
        if self._asked != (asked := tuple(names)):
            self._asked = asked
            self._served = np.array([self._power.serves(name) for name in asked], dtype=bool)
        return self._served

    def going(self) -> AbstractSet[int]:
        """Return the ids of the hosts for which a step is under way."""
        return frozenset(self._going)

    def note(self, marked: Mapping[int, MarkedState], going: AbstractSet[int]) -> None:
        """Remember the outlived marks in an observation, until they are gone or replaced.

        A step was under way for the hosts `going` when it began: their marks may be newer.
        """
        texts = {host: state.text for host, state in marked.items()}
        known = {host: text for host, text in self._outlived.items() if texts.get(host) == text}
        new = {host: texts[host] for host, state in marked.items() if state.outlived}
        under_way = self._going | going
        self._outlived = known | {host: new[host] for host in new.keys() - under_way}

    def unchanged(self, hosts: Ints) -> Bools:
        """Return [hosts]: whether the mark of each host holds, if there is one."""
        return ~is_one_of(hosts, self._outlived)

    async def send(self, step: Sleep | Wake, name: str | None, at_s: float) -> StepReply:
        """Carry out a step on a host; its `name` is None if it is gone.

        Raise CloudUnreachableError, OneError, UnreadableError or BrokenError.
        """
        if name is None:
            return StepReply(ReplyKind.LOOK_AGAIN, "the host is gone")
        if not self._power.serves(name):
            return StepReply(ReplyKind.REFUSED, f"host {name} can't be switched off and on")
        if step.host in self._going:
            return StepReply(ReplyKind.LOOK_AGAIN, "another step for the host is under way")
        self._going.add(step.host)
        try:
            now = await self._look(step.host)
            if now.name != name:
                return StepReply(ReplyKind.LOOK_AGAIN, "the host was renamed")
            since = datetime.fromtimestamp(int(at_s), UTC).isoformat()
            if isinstance(step, Sleep):
                return await self._sleep(step.host, now, since)
            return await self._wake(step.host, now, since)
        finally:
            self._going.remove(step.host)

    async def _sleep(self, host: int, before: _HostNow, since: str) -> StepReply:
        if before.why_awake:
            return StepReply(ReplyKind.LOOK_AGAIN, before.why_awake)
        await self._client.append_to_host(host, sleep_mark(since))
        self._outlived.pop(host, None)
        await self._client.set_host_status(host, _TAKEN_OFFLINE)
        await wait_seconds(self._clock, _SETTLES_S)
        now = await self._look(host)
        if now.marked.state != OFFLINE:
            return StepReply(ReplyKind.LOOK_AGAIN, "its state was changed meanwhile")
        if now.marked.mark is not Mark.ASLEEP:  # another daemon saw it before the host was offline
            await self._client.append_to_host(host, sleep_mark(since))
        why = f"VM {min(now.vms)} is on it" if now.vms else ""
        why = why or await self._power.sleep(host, before.name)
        if not why:
            return StepReply(ReplyKind.ACCEPTED)
        if (await self._look(host)).marked.state == OFFLINE:
            await self._enable(host, since)
        return StepReply(ReplyKind.LOOK_AGAIN, why)

    async def _wake(self, host: int, before: _HostNow, since: str) -> StepReply:
        if before.marked.text == self._outlived.get(host) or not before.marked.asleep:
            return StepReply(ReplyKind.LOOK_AGAIN, "it does not sleep")
        why = await self._power.wake(host, before.name)
        if why:
            return StepReply(ReplyKind.REFUSED, why)
        if (await self._look(host)).marked.asleep:
            await self._enable(host, since)
        return StepReply(ReplyKind.ACCEPTED)

    async def _enable(self, host: int, since: str) -> None:
        """Let OpenNebula use a host that may have to boot first, or may be off."""
        await self._client.set_host_status(host, _ENABLED)
        await self._client.append_to_host(host, waking_mark(since))

    async def _look(self, host: int) -> _HostNow:
        """Read a host."""
        parts = children(only_child(await self._client.host(host), "HOST"))
        vms = parts.get("VMS")
        return _HostNow(
            name=text(parts, "NAME"),
            marked=marked_state(whole(parts, "STATE"), words_of(parts.get("TEMPLATE"))),
            vms=() if vms is None else ids(vms.iterchildren("ID")),
        )

    async def remove_outlived_marks(self, names: Mapping[int, str]) -> None:
        """Remove or replace outlived marks of hosts that this daemon can switch.

        `names` are those of all hosts, by id. Raise CloudUnreachableError.
        """
        for host, outlived in sorted(self._outlived.items()):
            if host in self._going or not self._power.serves(names.get(host, "")):
                continue
            self._going.add(host)  # a step that begins meanwhile would lose its mark
            try:
                now = (await self._look(host)).marked
                if now.text == outlived:
                    mark = waking_mark(outlived) if now.state in DISABLED else NO_MARK
                    await self._client.append_to_host(host, mark)
                self._outlived.pop(host, None)
            except (OneError, UnreadableError, BrokenError) as error:
                _log.warn(
                    "Attribute {name} of host {host} can't be removed: {why}",
                    name=ASLEEP,
                    host=host,
                    why=str(error),
                )
            finally:
                self._going.remove(host)


class NoPower:
    """Switches no host; implements `merkatd.scheduler.base.power_port.PowerPort`."""

    def serves(self, host: str) -> bool:  # noqa: ARG002 - of the port
        """Return that it switches none."""
        return False

    async def sleep(self, host: int, name: str) -> str:  # noqa: ARG002 - of the port
        """Return that it can't."""
        return "no command switches hosts off"

    async def wake(self, host: int, name: str) -> str:  # noqa: ARG002 - of the port
        """Return that it can't."""
        return "no command switches hosts on"
