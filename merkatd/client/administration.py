"""What administrators order: `Administration(merkat).approve(plan.plan, skip=[2])`."""

from collections.abc import Sequence
from dataclasses import dataclass

from merkatd.client.answers import read
from merkatd.client.merkat import Merkat

_WHICHEVER = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """How the daemon is."""

    mode: str
    paused: bool
    interval_s: float
    standby: str | None = None
    period: int | None = None
    at_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """How much of what is decided is done."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan that waits for an administrator, or did."""

    plan: int
    period: int
    at_s: float
    state: str
    steps: Sequence[PlanStep]
    who: str | None = None


class Administration:
    """The orders that one login may give; everybody may ask how the daemon is."""

    def __init__(self, merkat: Merkat) -> None:
        self._merkat = merkat

    def daemon(self) -> Daemon:
        """Whether it acts, and how much of what it decides is done."""
        return read(Daemon, self._merkat.call("merkat.daemon.info"))

    def pause(self) -> bool:
        """Begin no more periods; False where that was so."""
        return bool(self._merkat.call("merkat.daemon.pause")["changed"])

    def resume(self) -> bool:
        """Go on; False where there was no pause."""
        return bool(self._merkat.call("merkat.daemon.resume")["changed"])

    def mode(self, mode: str | None = None) -> Mode:
        """How much is done; order another one (`dry`, `shadow`, `ask`, `on`, `configured`)."""
        if mode is None:
            return read(Mode, self._merkat.call("merkat.mode.info"))
        return read(Mode, self._merkat.call("merkat.mode.set", mode))

    def plan(self) -> Plan:
        """The newest plan, whatever became of it."""
        return read(Plan, self._merkat.call("merkat.plan.info"), steps=PlanStep)

    def approve(self, plan: int = _WHICHEVER, *, skip: Sequence[int] = ()) -> Plan:
        """Have the plan that waits carried out, without these steps."""
        answer = self._merkat.call("merkat.plan.approve", plan, {"numbers": list(skip)})
        return read(Plan, answer, steps=PlanStep)

    def refuse(self, plan: int = _WHICHEVER) -> Plan:
        """Have nothing done of the plan that waits."""
        return read(Plan, self._merkat.call("merkat.plan.refuse", plan), steps=PlanStep)
