"""How far a cluster of an iterative application is, by its monitor, and how fast it goes.

An iteration's cost is counted in *effort*: seconds of VMs that have all they can use. Two seconds
with half of it are one. So what an iteration will take after the allocation has changed is known
at once, and not when a slow one has ended at last.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from merkatd.policies.deadline import Work

MARKS: Final = 8
"""An iteration's effort is judged by so many of the last times at which some were done."""
_BEGUN: Final = 0.9
"""An iteration that is not done yet counts for no more of one."""
_NOTHING: Final = 1e-6
"""A smaller part of what VMs can use is as little as this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """As it was last seen; a controller keeps it in its memory."""

    seen_s: float = 0.0
    """When its monitor looked last; 0: never."""
    done: int = 0
    exit: int | None = None
    """What the application ended with."""
    at_s: float = 0.0
    """Up to when effort is counted,"""
    part: float = 0.0
    """of all that the VMs can use the part they have since then,"""
    effort_s: float = 0.0
    """and the effort until then."""
    seen_effort_s: float = 0.0
    """The effort until its monitor looked last."""
    marks: tuple[tuple[float, int], ...] = ()
    """The effort at which so many iterations were seen to be done."""
    whole: bool = True
    """Whether all VMs that the platform is to have ran at the last news. While one is away"""
    away_s: float = 0.0
    """the effort of the others is kept apart: they may only wait for it."""
    made_s: float = 0.0
    """So much of that had been when the last iterations were seen to be made without it."""

    @classmethod
    def of(cls, memory: Mapping[str, Any]) -> "Progress":
        """As it was kept."""
        marks = tuple((float(effort), int(done)) for effort, done in memory.get("marks", ()))
        return cls(**{**memory, "marks": marks})

    def kept(self) -> dict[str, Any]:
        """For a controller's memory."""
        return asdict(self)

    def until(self, at_s: float, part: float, most_s: float) -> "Progress":
        """When time has passed, and the VMs have this part from now on.

        Time beyond `most_s` is not counted: nobody was there, or nothing ran. A clock that was set
        back by as much begins anew: what it had said before would hold for as long.
        """
        passed_s = min(max(at_s - self.at_s, 0.0), most_s) if self.at_s else 0.0
        gained_s = self.part * passed_s
        effort_s = self.effort_s + (gained_s if self.whole else 0.0)
        away_s = self.away_s + (0.0 if self.whole else gained_s)
        later_s = at_s if at_s < self.at_s - most_s else max(at_s, self.at_s)
        return replace(self, at_s=later_s, part=part, effort_s=effort_s, away_s=away_s)

    def told_of_vms(self, at_s: float, part: float, most_s: float, *, whole: bool) -> "Progress":
        """When news have told what the VMs have, and whether all of them run.

        Iterations that were made while one was away, and still is, are made without it: what they
        took counts. What was seen just before it was back it may have made itself.
        """
        now = replace(self.until(at_s, part, most_s), whole=whole)
        if self.whole:
            return now
        made = bool(now.marks) and now.done != now.marks[-1][1]
        if whole:
            marks = _moved(now.marks, now.effort_s, now.done) if made else now.marks
            return replace(now, marks=marks, away_s=0.0, made_s=0.0)
        if not made:
            return now
        effort_s, away_s = now.effort_s + now.made_s, now.away_s - now.made_s
        marks = (*now.marks, (effort_s, now.done))[-MARKS:]
        now = replace(now, effort_s=effort_s, seen_effort_s=effort_s, marks=marks)
        return replace(now, away_s=away_s, made_s=0.0)

    def after(self, at_s: float, values: Mapping[str, float], most_s: float) -> "Progress":
        """When its monitor has told more; `most_s` as above."""
        ended = int(values["exit"]) if "exit" in values else self.exit
        if "done" not in values:
            return replace(self, exit=ended)
        done, missed = int(values["done"]), abs(at_s - self.at_s) > most_s
        if done < self.done and "exit" not in values:
            ended = None
        now = self.until(at_s, self.part, most_s)
        marks = self.marks
        if done < self.done:  # it was begun anew
            marks = ()
        if missed and marks:
            marks = _moved(marks, now.effort_s, done)
        elif marks and not self.whole:  # the next news say whether what it took counts
            now = replace(now, made_s=now.away_s if done != self.done else now.made_s)
        elif not marks or done != marks[-1][1]:
            marks = (*marks, (now.effort_s, done))[-MARKS:]
        return replace(
            now, seen_s=at_s, seen_effort_s=now.effort_s, done=done, exit=ended, marks=marks
        )

    @property
    def told(self) -> bool:
        """Whether its monitor has told of iterations, or of an end."""
        return self.seen_s > 0 or self.exit is not None

    def over(self, steps: int) -> bool:
        """Whether it has ended well, however many iterations it took, or made all of them."""
        return self.exit == 0 or self.done >= steps

    @property
    def measured(self) -> bool:
        """Whether some iterations were seen to be made."""
        return len(self.marks) > 1

    @property
    def sure(self) -> bool:
        """Whether they were seen more than once: the first ones begin with a start."""
        return len(self.marks) > 2

    def step_effort_s(self, ideal_s: float) -> float:
        """Of an iteration; the ideal, until some were seen."""
        if not self.measured:
            return ideal_s
        begins_with_start = self.sure and self.marks[0][1] == 0
        (first_s, first), (last_s, last) = self.marks[begins_with_start], self.marks[-1]
        return (last_s - first_s) / (last - first)

    def pace_s(self, ideal_s: float) -> float:
        """How long an iteration takes with what the VMs have now.

        One that had cost more than those before it, and was not done at the last look, is the
        measure; what was done since nobody knows.
        """
        hangs_s = self.seen_effort_s - self.marks[-1][0] if self.marks else 0.0
        return max(self.step_effort_s(ideal_s), hangs_s) / max(self.part, _NOTHING)

    def work(self, steps: int, ideal_run_s: float | None) -> Work:
        """What there is to do; the tenant's ideal run counts before what was seen."""
        ideal_s = None if ideal_run_s is None else ideal_run_s / max(steps, 1)
        step_s = self.step_effort_s(ideal_s or 0.0)
        begun = 0.0
        if self.marks and step_s > 0:
            begun = min((self.effort_s - self.marks[-1][0]) / step_s, _BEGUN)
        return Work(
            steps=steps,
            done=min(self.done + max(begun, 0.0), float(steps)),
            ideal_step_s=step_s if ideal_s is None else ideal_s,
        )


def _moved(
    marks: tuple[tuple[float, int], ...], effort_s: float, done: int
) -> tuple[tuple[float, int], ...]:
    """Marks that say the same of an iteration's effort, and end here.

    What was done while nobody counted effort says nothing of it.
    """
    last_s, last = marks[-1]
    return tuple((one_s + effort_s - last_s, one + done - last) for one_s, one in marks)
