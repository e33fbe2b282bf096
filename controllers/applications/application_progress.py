"""The progress and the pace of one cluster of an iterative application, from its monitor.

An iteration's cost is measured in *effort*: seconds at the full size of the VMs. Two seconds at
half the size are one second of effort. So when the allocation changes, the time of an iteration is
known at once, and not only after the next iteration has ended.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from merkatd.policies.deadline import Work

MARKS: Final = 8
"""The number of latest marks from which an iteration's effort is computed."""
_BEGUN: Final = 0.9
"""The largest fraction for which an unfinished iteration counts."""
_NOTHING: Final = 1e-6
"""The least part of the full size that is distinguished from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The last known progress, stored in the controller's memory."""

    seen_s: float = 0.0
    """The time of the monitor's last look; 0 before the first."""
    done: int = 0
    exit: int | None = None
    """The exit code of the application, once it has ended."""
    at_s: float = 0.0
    """The time up to which effort is counted."""
    part: float = 0.0
    """The part of their full size that the VMs have since `at_s`."""
    effort_s: float = 0.0
    """The effort up to `at_s`."""
    seen_effort_s: float = 0.0
    """The effort up to the monitor's last look."""
    marks: tuple[tuple[float, int], ...] = ()
    """Pairs of the effort and the number of iterations that were done at that effort."""
    whole: bool = True
    """Whether all VMs of the platform ran at the last news."""
    away_s: float = 0.0
    """The effort while a VM is away, kept apart: the other VMs may only wait for that VM."""
    made_s: float = 0.0
    """The value of `away_s` when the last iterations were made while the VM was away."""

    @classmethod
    def of(cls, memory: Mapping[str, Any]) -> "Progress":
        """Restore the progress from a controller's memory."""
        marks = tuple((float(effort), int(done)) for effort, done in memory.get("marks", ()))
        return cls(**{**memory, "marks": marks})

    def kept(self) -> dict[str, Any]:
        """Return the progress as values for a controller's memory."""
        return {name: getattr(self, name) for name in _NAMES}

    def until(self, at_s: float, part: float, most_s: float) -> "Progress":
        """Return the progress at a later time; the VMs have this part from then on.

        Time beyond `most_s` is not counted: the controller was away, or the VMs did not run. If the
        clock was set back by more than `most_s`, counting restarts at the new time; otherwise no
        effort would count until the clock is past the old time.
        """
        passed_s = min(max(at_s - self.at_s, 0.0), most_s) if self.at_s else 0.0
        gained_s = self.part * passed_s
        effort_s = self.effort_s + (gained_s if self.whole else 0.0)
        away_s = self.away_s + (0.0 if self.whole else gained_s)
        later_s = at_s if at_s < self.at_s - most_s else max(at_s, self.at_s)
        return replace(self, at_s=later_s, part=part, effort_s=effort_s, away_s=away_s)

    def told_of_vms(self, at_s: float, part: float, most_s: float, *, whole: bool) -> "Progress":
        """Return the progress after news about the allocation and whether all VMs run.

        Iterations made while a VM is away, and still is, were made without it: their effort counts.
        Iterations seen just before its return may be its own: their effort does not count.
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
        """Return the progress after a monitor's report; `most_s` as for `until`."""
        ended = int(values["exit"]) if "exit" in values else self.exit
        if "done" not in values:
            return replace(self, exit=ended)
        done, missed = int(values["done"]), abs(at_s - self.at_s) > most_s
        if done < self.done and "exit" not in values:
            ended = None
        now = self.until(at_s, self.part, most_s)
        marks = self.marks
        if done < self.done:  # the application was restarted
            marks = ()
        if missed and marks:
            marks = _moved(marks, now.effort_s, done)
        elif marks and not self.whole:  # the next news decide whether its effort counts
            now = replace(now, made_s=now.away_s if done != self.done else now.made_s)
        elif not marks or done != marks[-1][1]:
            marks = (*marks, (now.effort_s, done))[-MARKS:]
        return replace(
            now, seen_s=at_s, seen_effort_s=now.effort_s, done=done, exit=ended, marks=marks
        )

    @property
    def reported(self) -> bool:
        """Return whether its monitor has reported iterations or an end."""
        return self.seen_s > 0 or self.exit is not None

    def over(self, steps: int) -> bool:
        """Return whether it ended successfully, or has made all iterations."""
        return self.exit == 0 or self.done >= steps

    @property
    def measured(self) -> bool:
        """Return whether the effort of an iteration was measured."""
        return len(self.marks) > 1

    @property
    def sure(self) -> bool:
        """Return whether it was measured more than once: the first includes the program's start."""
        return len(self.marks) > 2

    def step_effort_s(self, ideal_s: float) -> float:
        """Return the effort of an iteration; the ideal until it is measured."""
        if not self.measured:
            return ideal_s
        begins_with_start = self.sure and self.marks[0][1] == 0
        (first_s, first), (last_s, last) = self.marks[begins_with_start], self.marks[-1]
        return (last_s - first_s) / (last - first)

    def pace_s(self, ideal_s: float) -> float:
        """Return the time of an iteration at the present allocation.

        The effort of the current iteration counts if it exceeded that of earlier iterations at the
        last look, and the iteration was not done. The effort since that look is unknown.
        """
        hangs_s = self.seen_effort_s - self.marks[-1][0] if self.marks else 0.0
        return max(self.step_effort_s(ideal_s), hangs_s) / max(self.part, _NOTHING)

    def work(self, steps: int, ideal_run_s: float | None) -> Work:
        """Return the work; the tenant's ideal run takes precedence over measurements."""
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


_NAMES: Final = tuple(field.name for field in fields(Progress))


def _moved(
    marks: tuple[tuple[float, int], ...], effort_s: float, done: int
) -> tuple[tuple[float, int], ...]:
    """Return marks shifted to end here, with the same effort per iteration.

    Iterations made while effort was not counted must not change the measurement.
    """
    last_s, last = marks[-1]
    return tuple((one_s + effort_s - last_s, mark + done - last) for one_s, mark in marks)
