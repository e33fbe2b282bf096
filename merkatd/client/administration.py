"""Administrators' calls: `Administration(merkat).approve(plan.plan, skip=[2])`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from merkatd.client.answers import read
from merkatd.client.merkat import Merkat

_WHICHEVER = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """The state of the daemon."""

    mode: str
    paused: bool
    interval_s: float
    standby: str | None = None
    period: int | None = None
    at_s: float | None = None
    now_s: float | None = None
    """The cloud's time, in seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """The mode: which part of the decisions the daemon carries out."""

    mode: str
    configured: str
    ordered: str | None = None
    waiting_plan: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """One step of a plan."""

    number: int
    kind: str
    vm: int
    reason: str
    skipped: bool
    name: str | None = None
    source: str | None = None
    host: str | None = None
    became: str | None = None
    gain: float | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan that waits for an administrator's approval, or an earlier one."""

    plan: int
    period: int
    at_s: float
    state: str
    steps: Sequence[PlanStep]
    who: str | None = None
    reverses: int | None = None
    shortfalls: Sequence[Mapping[str, Any]] = ()
    left_out: Sequence[Mapping[str, Any]] = ()


class Administration:
    """The administrators' calls of one login; every login may read the daemon's state."""

    def __init__(self, merkat: Merkat) -> None:
        self._merkat = merkat

    def daemon(self) -> Daemon:
        """Return the daemon's state: its mode, whether it is paused, the latest period."""
        return read(Daemon, self._merkat.call("merkat.daemon.info"))

    def pause(self) -> bool:
        """Start no more periods; return False if the daemon was already paused."""
        return bool(self._merkat.call("merkat.daemon.pause")["changed"])

    def resume(self) -> bool:
        """Start periods again; return False if the daemon was not paused."""
        return bool(self._merkat.call("merkat.daemon.resume")["changed"])

    def mode(self, mode: str | None = None) -> Mode:
        """Return the mode, or set it first: `dry`, `shadow`, `ask`, `on` or `configured`."""
        if mode is None:
            return read(Mode, self._merkat.call("merkat.mode.info"))
        return read(Mode, self._merkat.call("merkat.mode.set", mode))

    def plan(self) -> Plan:
        """Return the newest plan, whatever its state."""
        return read(Plan, self._merkat.call("merkat.plan.info"), steps=PlanStep)

    def approve(self, plan: int = _WHICHEVER, *, skip: Sequence[int] = ()) -> Plan:
        """Approve the waiting plan, without the steps in `skip`."""
        answer = self._merkat.call("merkat.plan.approve", plan, {"numbers": list(skip)})
        return read(Plan, answer, steps=PlanStep)

    def refuse(self, plan: int = _WHICHEVER) -> Plan:
        """Refuse the whole waiting plan."""
        return read(Plan, self._merkat.call("merkat.plan.refuse", plan), steps=PlanStep)

    def reverse(self, plan: int = _WHICHEVER) -> Plan:
        """Propose a plan that undoes an executed one, by default the newest."""
        return read(Plan, self._merkat.call("merkat.plan.reverse", plan), steps=PlanStep)
