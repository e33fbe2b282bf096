"""Goals: work with deadlines, of platforms and of other sources."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from merkatd.service.platforms import PlatformSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Work with a deadline. Times are seconds since the epoch."""

    name: str
    owner: int
    state: str
    platform: int | None = None
    """The platform's id, None if the work is not a platform."""
    vms: int = 0
    began_s: float | None = None
    deadline_s: float | None = None
    projected_end_s: float | None = None
    done: float | None = None
    """The part of the work that is done, None if it is unknown."""
    on_track: bool | None = None
    ended_s: float | None = None
    """The time when the work ended, None while it continues."""
    text: str = ""
    """The state of the work, as a sentence."""

    def passed(self, now_s: float) -> float | None:
        """Return the part of the time to the deadline that has passed, None if it is unknown."""
        if self.began_s is None or self.deadline_s is None or self.deadline_s <= self.began_s:
            return None
        return (now_s - self.began_s) / (self.deadline_s - self.began_s)


Tell = Callable[[], Sequence[Goal]]


class Goals:
    """The goals from sources other than platforms."""

    def __init__(self) -> None:
        self._telling: list[Tell] = []

    def also(self, tell: Tell) -> None:
        """Add a source of goals."""
        self._telling.append(tell)

    def collect(self) -> list[Goal]:
        """Return the present goals of all sources."""
        return [goal for tell in self._telling for goal in tell()]


OVER = frozenset({"done", "cancelled", "failed"})
"""The states of platforms that have ended."""


def of_platform(platform: PlatformSummary) -> Goal:
    """Return the goal of a platform."""
    ended_s = platform.since_s if platform.state in OVER else None
    return Goal(
        name=platform.name,
        owner=platform.owner,
        state=platform.state,
        platform=platform.id,
        vms=platform.size,
        began_s=platform.started_s or platform.submitted_s,
        deadline_s=platform.deadline_s,
        projected_end_s=platform.projected_end_s if ended_s is None else ended_s,
        done=platform.done,
        on_track=platform.on_track if ended_s is None else _kept(platform),
        ended_s=ended_s,
        text=platform.report or platform.why or "",
    )


def _kept(platform: PlatformSummary) -> bool | None:
    """Return whether ended work was done before its deadline, None if it had no deadline."""
    if platform.deadline_s is None:
        return None
    return bool(platform.state == "done" and platform.since_s <= platform.deadline_s)
