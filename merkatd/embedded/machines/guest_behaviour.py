"""A guest's behaviour, from EMBEDDED=[...] in its VM's user template: an application of one kind.

The owner of a VM writes it, so any text may occur. A wrong value counts as missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from merkatd.embedded.model.template_text import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from merkatd.embedded.model.records import Vm
    from merkatd.embedded.model.settings import Guesting

MOST_STAGES = 100
DAY_S = 86_400.0
PIECE_S = 600.0
"""The length of a piece of a wave; arrivals are constant within a piece."""
_MOST_ARRIVALS = 1e6
_REQUEST_WORK = (1e-6, 1e6)
_MOST_WORK = 1e12
_MOST_SPEED = 1e6
_MOST_MIB = 1e9
_LONGEST_TEXT = 100 * MOST_STAGES
_STAGE_PARTS, _WAVE_PARTS = 4, 3
_HOURS = 24


@dataclass(frozen=True, slots=True)
class ArrivalWave:
    """The requests a second: constant, or a wave with the period of a day."""

    least: float = 0.0
    greatest: float = 0.0
    peak_hour: float = 0.0
    """The hour of the day (UTC) with the most requests."""

    @property
    def varies(self) -> bool:
        """Whether the rate changes in the course of the day."""
        return self.least != self.greatest

    def rate(self, at_s: float) -> float:
        """Return the wave's mean over the piece that contains a time."""
        if not self.varies:
            return self.greatest
        start_s = math.floor(at_s / PIECE_S) * PIECE_S
        turn = 2 * math.pi / DAY_S
        peak_s = self.peak_hour * 3600
        gain = math.sin(turn * (start_s + PIECE_S - peak_s)) - math.sin(turn * (start_s - peak_s))
        middle, height = (self.least + self.greatest) / 2, (self.greatest - self.least) / 2
        return max(0.0, middle + height * gain / (turn * PIECE_S))

    def next_change_s(self, at_s: float) -> float:
        """Return the time when the next piece begins; infinity for a constant rate."""
        return (math.floor(at_s / PIECE_S) + 1) * PIECE_S if self.varies else math.inf


@dataclass(frozen=True, slots=True)
class JobStage:
    """A stage of a job."""

    work: float
    """Its core-seconds."""
    least: float
    """The cores below which it makes no progress."""
    greatest: float
    """The most cores that it uses."""
    memory_mib: float


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A guest's behaviour: a service, a job with stages, or plain work."""

    work: float = 0.0
    """The core-seconds until its application finishes; 0 means never."""
    iterations: int = 1
    """The number of parts of the work; completed parts survive a reboot."""
    demand: float = 1.0
    """The demand of each virtual CPU in cores."""
    memory_use_mib: float = 0.0
    poweroff: bool = False
    """Whether the guest powers itself off when its application finishes."""
    arrivals: ArrivalWave = ArrivalWave()
    request_work: float = 0.0
    """The core-seconds of a request; 0 unless it is a service."""
    stages: tuple[JobStage, ...] = ()
    dirty_mib_s: float | None = None
    """The MiB that it writes to its memory in a second while it has all the CPU that it wants; None
    if this is not measured."""

    @property
    def serves(self) -> bool:
        """Whether it is a service."""
        return self.request_work > 0

    def stage_end(self, stage: int) -> float:
        """Return the work that is done at the end of a stage; 0 for stage -1."""
        return math.fsum(part.work for part in self.stages[: stage + 1])


def behaviour_of(vm: Vm, settings: Guesting) -> Behaviour:
    """Read the behaviour in a VM's template; the default is a busy, half-full guest.

    A valid service comes before valid stages, and stages come before work.
    """
    texts = vm.user_template.vector("EMBEDDED")
    dirty_mib_s = number(texts.get("DIRTY_RATE", ""), float, -1.0)
    behaviour = _application_of(vm, texts, settings)
    return (
        replace(behaviour, dirty_mib_s=dirty_mib_s) if 0 <= dirty_mib_s <= _MOST_MIB else behaviour
    )


def _application_of(vm: Vm, texts: Mapping[str, str], settings: Guesting) -> Behaviour:
    default_use = vm.memory_mib * settings.memory_part
    demand = min(1.0, max(0.0, number(texts.get("DEMAND", ""), float, settings.demand)))
    use_mib = max(0.0, number(texts.get("MEMORY_USE", ""), float, default_use))
    arrivals, request_work = _service(texts)
    if request_work > 0:
        return Behaviour(
            demand=demand, memory_use_mib=use_mib, arrivals=arrivals, request_work=request_work
        )
    stages = _stages(texts.get("STAGES", ""))
    poweroff = texts.get("ON_FINISH", "run").lower() == "poweroff"
    if stages:
        work = math.fsum(stage.work for stage in stages)
        return Behaviour(work, len(stages), demand, use_mib, poweroff, stages=stages)
    return Behaviour(
        work=max(0.0, number(texts.get("WORK", ""), float, 0.0)),
        iterations=max(1, int(number(texts.get("ITERATIONS", ""), float, 1))),
        demand=demand,
        memory_use_mib=use_mib,
        poweroff=poweroff,
    )


def _service(texts: Mapping[str, str]) -> tuple[ArrivalWave, float]:
    """Return arrivals and the work of a request; the work is 0 if a value is missing or wrong."""
    none = ArrivalWave(), 0.0
    arrivals = texts.get("ARRIVALS", "")[:_LONGEST_TEXT].split(":", _WAVE_PARTS)
    request_work = number(texts.get("REQUEST_WORK", ""), float, 0.0)
    if not _REQUEST_WORK[0] <= request_work <= _REQUEST_WORK[1]:
        return none
    rates = [number(text, float, -1.0) for text in arrivals[:2]]
    if not all(0 <= rate <= _MOST_ARRIVALS for rate in rates):
        return none
    if len(arrivals) == 1:
        return ArrivalWave(rates[0], rates[0]), request_work
    hour = number(arrivals[-1], float, -1.0)
    if len(arrivals) != _WAVE_PARTS or rates[0] > rates[1] or not 0 <= hour < _HOURS:
        return none
    return ArrivalWave(rates[0], rates[1], hour), request_work


def _stages(text: str) -> tuple[JobStage, ...]:
    """Return the stages in a text; none if one of them is wrong or there are too many."""
    if len(text) > _LONGEST_TEXT or text.count(",") >= MOST_STAGES:
        return ()
    stages = []
    for words in text.split(","):
        values = [number(word, float, -1.0) for word in words.split(":", _STAGE_PARTS)]
        if len(values) != _STAGE_PARTS:
            return ()
        work, least, greatest, memory_mib = values
        wrong = not 0 < work <= _MOST_WORK or not 0 < greatest <= _MOST_SPEED
        if wrong or not 0 <= least <= greatest or not 0 <= memory_mib <= _MOST_MIB:
            return ()
        stages.append(JobStage(work, least, greatest, memory_mib))
    return tuple(stages)
