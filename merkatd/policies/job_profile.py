"""The job profiler: finds the stages of a job from its finished runs.

# Note [Stages of a run]
A run is a series of samples of used CPU and memory. The profiler divides the time in which samples
were taken into at most `MOST_POINTS` equal pieces, and these into stages where CPU or memory
changes for longer (Note [Best division] in `change_points.py`). CPU and memory are measured in
their noise, so that both count alike. A stage has

- its work: the sum of used CPU over time
- its greatest speed: what it used at most, apart from the top tenth of its time
- its memory: the most that it had

Time without samples, such as a suspension, is no part of a run. After the progress has reached 1,
only idle time follows.

A profile joins the newest runs: of those with the most usual number of stages, the median of each
value. So a run that failed, had another input, or was disturbed changes nothing alone.

The profiler can't tell a stage that needs little CPU from one that got little. Runs that got less
than they could use make the greatest speed too small, never the work.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from merkatd.policies.change_points import MOST_POINTS, divide

MOST_STAGES: Final = 8
LATEST_RUNS: Final = 10
"""The number of newest runs that a profile joins."""
LEAST_POINTS: Final = 8
"""The least number of samples of a run."""
PERCENT_OF_A_CORE: Final = 100.0
_MOST: Final = 1e12
"""The largest time, use or memory in a sample."""
_GAP: Final = 5.0
"""A pause between two samples that is so many times longer than usual has no samples."""
_TOP: Final = 0.9
_PENALTY: Final = 6.0
"""The penalty of a stage in variances of the noise, times the logarithm of the points."""
_LEAST_NOISE: Final = 0.05
"""The least noise that counts, as a part of the highest value: smaller steps are no stages."""
_LEAST_PIECES: Final = 3
"""The least pieces of a stage. A piece in which one stage ends and the next begins is none."""
_DIFFERENCE: Final = 0.9539
"""The median absolute difference of two values with normal noise, in standard deviations."""


@dataclass(frozen=True, slots=True)
class JobSample:
    """The use of a job at a moment, of all its VMs together."""

    at_s: float
    used_cpu: float
    """In percent of a core, since the last sample."""
    memory_mib: float
    progress: float | None = None
    """The finished part of the work, from 0 to 1; None if it is unknown."""

    @property
    def counts(self) -> bool:
        """Return whether all numbers are possible."""
        numbers = (self.at_s, self.used_cpu, self.memory_mib)
        return all(0.0 <= value <= _MOST for value in numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledStage:
    """A stage of a job, of all its VMs together."""

    work: float
    """In core-seconds."""
    greatest_speed: float
    """In percent of a core."""
    memory_mib: float


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a run between two samples."""

    took_s: float
    used_cpu: float
    memory_mib: float


def stages_of_run(samples: Sequence[JobSample]) -> tuple[ProfiledStage, ...]:
    """Return the stages of a run in their order; none if it has too few samples, or no work."""
    pieces = _pieces(samples)
    if len(pieces) < LEAST_POINTS or not any(piece.used_cpu for piece in pieces):
        return ()
    points = _resampled(pieces) if len(pieces) > MOST_POINTS else pieces
    columns = [
        _in_noise([piece.used_cpu for piece in points]),
        _in_noise([piece.memory_mib for piece in points]),
    ]
    ends = divide(columns, _PENALTY * math.log(len(points)), MOST_STAGES, _LEAST_PIECES)
    starts = (0, *ends[:-1])
    parts = [points[start:end] for start, end in zip(starts, ends, strict=True)]
    stages = [_stage(part) for part in parts]
    return tuple(stage for stage in stages if stage.work > 0.0)


def _pieces(samples: Sequence[JobSample]) -> list[_Piece]:
    """Return the times between samples, without pauses, impossible values and the idle end."""
    known: list[JobSample] = []
    for sample in samples:
        if sample.counts and (not known or sample.at_s > known[-1].at_s):
            known.append(sample)
            if sample.progress is not None and sample.progress >= 1.0:
                break
    steps = [later.at_s - earlier.at_s for earlier, later in pairwise(known)]
    if not steps:
        return []
    longest_s = _GAP * median(steps)
    return [
        _Piece(took_s, sample.used_cpu, sample.memory_mib)
        for took_s, sample in zip(steps, known[1:], strict=True)
        if took_s <= longest_s
    ]


def _resampled(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Return `MOST_POINTS` pieces of equal length with the same work and the most memory."""
    length_s = math.fsum(piece.took_s for piece in pieces) / MOST_POINTS
    work = [0.0] * MOST_POINTS
    memory = [0.0] * MOST_POINTS
    at_s = 0.0
    for piece in pieces:
        begin_s, at_s = at_s, at_s + piece.took_s
        first = min(int(begin_s / length_s), MOST_POINTS - 1)
        last = min(int(at_s / length_s), MOST_POINTS - 1)
        for row in range(first, last + 1):
            upper_s = math.inf if row == MOST_POINTS - 1 else (row + 1) * length_s
            part_s = min(at_s, upper_s) - max(begin_s, row * length_s)
            work[row] += piece.used_cpu * max(part_s, 0.0)
            if part_s > 0.0:
                memory[row] = max(memory[row], piece.memory_mib)
    return [
        _Piece(length_s, done / length_s, most) for done, most in zip(work, memory, strict=True)
    ]


def _in_noise(values: Sequence[float]) -> list[float]:
    """Return the values in standard deviations of their noise.

    The noise is the usual difference of neighbours: a few large steps between stages are none.
    """
    differences = [abs(later - earlier) for earlier, later in pairwise(values)]
    noise = max(median(differences) / _DIFFERENCE, _LEAST_NOISE * max(values))
    return [value / noise for value in values] if noise > 0.0 else list(values)


def _stage(pieces: Sequence[_Piece]) -> ProfiledStage:
    work = math.fsum(piece.took_s * piece.used_cpu for piece in pieces)
    return ProfiledStage(
        work=work / PERCENT_OF_A_CORE,
        greatest_speed=_top_speed(pieces),
        memory_mib=max(piece.memory_mib for piece in pieces),
    )


def _top_speed(pieces: Sequence[_Piece]) -> float:
    """Return the speed that all but a tenth of the time does not exceed."""
    reached_s, wanted_s = 0.0, _TOP * math.fsum(piece.took_s for piece in pieces)
    for piece in sorted(pieces, key=lambda piece: piece.used_cpu):
        reached_s += piece.took_s
        if reached_s >= wanted_s:
            return piece.used_cpu
    return max(piece.used_cpu for piece in pieces)


def job_profile(runs: Sequence[Sequence[ProfiledStage]]) -> tuple[ProfiledStage, ...]:
    """Return the stages of a job from its runs, oldest first; none without a run that has stages.

    Of numbers of stages that are equally usual, the smaller counts.
    """
    latest = [run for run in runs if run][-LATEST_RUNS:]
    if not latest:
        return ()
    numbers = Counter(len(run) for run in latest)
    usual = min(numbers, key=lambda number: (-numbers[number], number))
    return tuple(
        ProfiledStage(
            work=median(stage.work for stage in stages),
            greatest_speed=median(stage.greatest_speed for stage in stages),
            memory_mib=median(stage.memory_mib for stage in stages),
        )
        for stages in zip(*(run for run in latest if len(run) == usual), strict=True)
    )
