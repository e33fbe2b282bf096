"""An application's logs, read over SSH from all VMs of a cluster at once."""

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from re import Pattern
from typing import Any, Final

from controllers.monitors import tail
from controllers.monitors.counting import PATTERN, Count, counted, pattern_of
from controllers.monitors.guests import Guests
from controllers.monitors.looking import Known, Notebook, Seen
from controllers.monitors.ssh import Heard, Said
from merkatd.platforms.ports import VmNow

_MOST_ROUNDS: Final = 64
"""So often at most a look reads on in long logs."""
_SIGNS: Final = "cut -d' ' -f1 /proc/loadavg; cat {status} 2>/dev/null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What a template's monitor says is to be watched."""

    log: str
    pattern: Pattern[str]
    status: str = ""
    """The file with the application's exit code, once there is one."""
    configure: str = "true"
    """A command for each VM, once, when it first answers; it is up when this went well."""

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> "Watched":
        """ValueError where something is missing."""
        if not parameters.get("log"):
            raise ValueError("the monitor's parameters.log, the path of a log, is missing")
        return cls(
            log=str(parameters["log"]),
            pattern=pattern_of(str(parameters.get("pattern", PATTERN))),
            status=str(parameters.get("status", "")),
            configure=str(parameters.get("configure", "true")),
        )


class ThroughSsh:
    """Implements `Way`."""

    def __init__(
        self,
        guests: Guests,
        watched: Watched,
        notebook: Notebook,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._guests = guests
        self._watched = watched
        self._notebook = notebook
        self._now = now
        self._known = notebook.load()

    async def look(self) -> Seen:
        """Configure those that came up, read on in all logs, ask for exit code and load."""
        vms = await self._guests.running()
        at_s = self._now()
        self._known = {vm: self._known.get(vm, Known(first_s=at_s)) for vm in vms}
        await self._configure({vm: one for vm, one in vms.items() if not self._known[vm].up})
        up = {vm: one for vm, one in vms.items() if self._known[vm].up}
        unheard = await self._read(up)
        more = await self._signs(up)
        self._notebook.keep(self._known)
        return Seen(
            at_s=at_s,
            # What one has done since, nobody knows: so nobody knows how far all are.
            counts={} if unheard else self._counts(),
            absent={vm: at_s - one.first_s for vm, one in self._known.items() if not one.up},
            more=more,
        )

    def close(self) -> None:
        """Hang up."""
        self._guests.close()

    async def _configure(self, vms: Mapping[int, VmNow]) -> None:
        heard = await self._guests.ask(vms, lambda _: self._watched.configure) if vms else {}
        for vm, one in heard.items():
            if isinstance(one, Said) and one.status == 0:
                self._known[vm] = replace(self._known[vm], up=True)

    def _counts(self) -> dict[int, Count]:
        return {vm: one.count for vm, one in self._known.items() if one.count is not None}

    async def _read(self, vms: Mapping[int, VmNow]) -> set[int]:
        """Those with a log that did not answer."""
        left, unheard = dict(vms), set[int]()
        for _ in range(_MOST_ROUNDS):
            if not left:
                break
            heard = await self._guests.ask(left, self._tail)
            unheard |= {vm for vm, one in heard.items() if not isinstance(one, Said)}
            left = {vm: left[vm] for vm, one in heard.items() if self._took(vm, one)}
        return unheard & self._counts().keys()

    def _tail(self, vm: int) -> str:
        return tail.command(self._watched.log, self._known[vm].position)

    def _took(self, vm: int, heard: Heard) -> bool:
        """Count what came; whether there is more to read at once."""
        if not isinstance(heard, Said) or heard.status != 0:
            return False
        known = self._known[vm]
        came = tail.read(known.position, heard.out)
        if came.position == known.position and not came.lines:
            return came.more
        count = counted(known.count or Count(), came.lines, self._watched.pattern, self._now())
        self._known[vm] = replace(known, position=came.position, count=count)
        return came.more

    async def _signs(self, vms: Mapping[int, VmNow]) -> dict[str, float]:
        if not vms:
            return {}
        command = _SIGNS.format(status=shlex.quote(self._watched.status or "/dev/null"))
        heard = await self._guests.ask(vms, lambda _: command)
        loads, exits = [], []
        for one in heard.values():
            if isinstance(one, Said):
                words = one.out.split()
                loads += [float(words[0])] if words else []
                exits += [int(words[1])] if len(words) > 1 else []
        more = {"answering": float(len(loads))}
        if loads:
            more["load"] = sum(loads) / len(loads)
        if exits:
            # One that failed has failed them all.
            more["exit"] = float(max(exits, key=abs))
        return more
