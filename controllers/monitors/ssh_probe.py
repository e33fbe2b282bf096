"""The reader of an application's logs, over SSH from all VMs of a cluster at once."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from controllers.monitors import log_probe
from controllers.monitors.guest_access import GuestAccess, running
from controllers.monitors.iteration_count import (
    PATTERN,
    Count,
    Notebook,
    ProbeResult,
    memory_of_vms,
    next_count,
)
from controllers.monitors.log_probe import VmSigns
from controllers.monitors.ssh_pool import CommandResult, Heard
from merkatd.base.line_patterns import Pattern, pattern_of
from merkatd.protocol.platform_messages import VmNow

_MOST_ROUNDS: Final = 256
"""The most rounds in which one look reads long logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeTerms:
    """The paths, the pattern and the command in a template's monitor."""

    log: str
    pattern: Pattern
    status: str = ""
    """The path of the file with the exit code, once the application has ended."""
    configure: str = "true"
    """The command that runs once in each VM when it first answers; the VM is up if it succeeds."""

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> "ProbeTerms":
        """Read a monitor's parameters. Raise ValueError if the log's path is missing."""
        if not parameters.get("log"):
            raise ValueError("the monitor's parameters.log, the path of a log, is missing")
        return cls(
            log=str(parameters["log"]),
            pattern=pattern_of(str(parameters.get("pattern", PATTERN))),
            status=str(parameters.get("status", "")),
            configure=str(parameters.get("configure", "true")),
        )


class ThroughSsh:
    """The `Probe` over SSH."""

    def __init__(
        self,
        guests: GuestAccess,
        watched: ProbeTerms,
        notebook: Notebook,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._guests = guests
        self._watched = watched
        self._notebook = notebook
        self._now = now
        self._known = notebook.load()

    async def look(self) -> ProbeResult:
        """Configure new VMs, then read load, exit code and new log lines of all VMs."""
        there = await self._guests.there()
        at_s = self._now()
        if there is None:
            return ProbeResult(at_s=at_s)
        vms = running(there)
        self._known = memory_of_vms(self._known, there, at_s)
        await self._configure({vm: place for vm, place in vms.items() if not self._known[vm].up})
        up = {vm: place for vm, place in vms.items() if self._known[vm].up}
        unheard, seen = await self._read(up)
        self._notebook.keep(self._known)
        counts = self._counts(up)
        missed = [vm for vm in vms if not self._known[vm].up]
        return ProbeResult(
            at_s=at_s,
            # The progress of a VM that did not answer is unknown, so the cluster's is, too.
            counts={} if unheard else counts,
            absent={vm: at_s - self._known[vm].first_s for vm in missed},
            more=log_probe.sign_values(seen, counts),
        )

    def close(self) -> None:
        """Close all connections."""
        self._guests.close()

    async def _configure(self, vms: Mapping[int, VmNow]) -> None:
        heard = await self._guests.ask(vms, lambda _: self._watched.configure) if vms else {}
        for vm, outcome in heard.items():
            if isinstance(outcome, CommandResult) and outcome.status == 0:
                self._known[vm] = replace(self._known[vm], up=True)

    def _counts(self, vms: Iterable[int]) -> dict[int, Count]:
        known = {vm: self._known[vm].count for vm in vms}
        return {vm: count for vm, count in known.items() if count is not None}

    async def _read(self, vms: Mapping[int, VmNow]) -> tuple[set[int], dict[int, VmSigns]]:
        """Read all logs; return the VMs with a log that did not answer, and the others' signs.

        A VM's signs come before the first part of its log. So if they show the application's end,
        its whole log is read.
        """
        left, unheard, seen = dict(vms), set[int](), dict[int, VmSigns]()
        for _ in range(_MOST_ROUNDS):
            if not left:
                break
            heard = await self._guests.ask(left, lambda vm: self._asked(vm, first=vm not in seen))
            more = {}
            for vm, outcome in heard.items():
                out = _out(outcome)
                if out is not None and vm not in seen:
                    line, _, out = out.partition(b"\n")
                    seen[vm] = log_probe.read_signs(line)
                took = None if out is None else self._took(vm, out)
                if took is None:
                    unheard.add(vm)
                elif took:
                    more[vm] = left[vm]
            left = more
        return unheard & self._counts(vms).keys(), seen

    def _asked(self, vm: int, *, first: bool) -> str:
        script = log_probe.tail_command(self._watched.log, self._known[vm].position)
        return f"{log_probe.signs_command(self._watched.status)}; {script}" if first else script

    def _took(self, vm: int, out: bytes) -> bool | None:
        """Count the new lines; return whether more are waiting, None if the answer is invalid."""
        known = self._known[vm]
        try:
            came = log_probe.read_tail(known.position, out)
        except ValueError:
            return None
        if came.position == known.position and not came.lines:
            return came.more
        count = next_count(known.count or Count(), came.lines, self._watched.pattern, self._now())
        self._known[vm] = replace(known, position=came.position, count=count)
        return came.more


def _out(heard: Heard) -> bytes | None:
    return heard.out if isinstance(heard, CommandResult) and heard.status == 0 else None
