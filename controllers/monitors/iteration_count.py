"""Iterations counted from logs, and the result and memory of a monitor's looks."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final, Protocol

from controllers.measurements import ABSENT, LATEST
from controllers.monitors.log_probe import Position
from merkatd.base.line_patterns import Pattern
from merkatd.protocol.measurement_names import MADE
from merkatd.protocol.platform_messages import VmNow

PATTERN: Final = r"\bstep\s+(?P<step>\d+)\b.*?(?P<seconds>\d+(?:\.\d+)?)\s*s\b"
"""The default pattern of a log line about an iteration."""
_DIGITS: Final = 40
_MOST: Final = 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The iterations of one VM."""

    done: int = 0
    took_s: tuple[float, ...] = ()
    """The times of the latest iterations, the newest last."""
    at_s: float = 0.0
    """The time at which a new iteration was last seen."""

    @property
    def step_s(self) -> float | None:
        """Return the median time of the latest iterations; None if unknown."""
        return median(self.took_s) if self.took_s else None


def next_count(before: Count, lines: Iterable[str], pattern: Pattern, now_s: float) -> Count:
    """Return the count after more log lines; a restarted application may repeat a step."""
    done, took, at_s = before.done, list(before.took_s), before.at_s
    for line in lines:
        match = pattern.search(line)
        if match is None:
            continue
        groups = match.groupdict()
        step = _number(groups["step"])
        if step is None:
            continue
        done, at_s = int(step), now_s
        seconds = _number(groups.get("seconds"))
        if seconds is not None:
            took.append(seconds)
    return Count(done=done, took_s=tuple(took[-LATEST:]), at_s=at_s)


def _number(text: str | None) -> float | None:
    """Return the number of a group; None if it is no number from 0 to 1e15."""
    if text is None or len(text) > _DIGITS:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= _MOST else None


def of_guest(stored: Mapping[str, Any]) -> Count:
    """Return the count in the embedded cloud's report on a guest (`embedded.guest.progress`)."""
    log: Sequence[Sequence[float]] = stored["log"]
    if not log:
        return Count()
    tail = log[-LATEST - 1 :]
    took = tuple(
        (later[0] - earlier[0]) / (later[1] - earlier[1])
        for earlier, later in pairwise(tail)
        if later[1] > earlier[1]
    )
    return Count(done=int(log[-1][1]), took_s=took, at_s=float(log[-1][0]))


def measured_values(
    counts: Mapping[int, Count], absent: Mapping[int, float], now_s: float
) -> dict[str, float]:
    """Return the measurements for the controller: the slowest VM sets the progress."""
    values = {f"{ABSENT}{vm}": seconds for vm, seconds in absent.items()}
    values |= {f"{MADE}{vm}": float(count.done) for vm, count in counts.items()}
    if counts:
        slowest = min(counts.values(), key=lambda count: count.done)
        values["done"] = float(slowest.done)
        if slowest.at_s:
            values["waiting_s"] = max(0.0, now_s - slowest.at_s)
    steps = [count.step_s for count in counts.values() if count.step_s is not None]
    if steps:
        values["step_s"] = max(steps)
    return values


KEPT_S: Final = 3_600.0
"""The time for which a VM that is missing in the news is remembered, as it may still exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """The result of a look at all running VMs of the cluster."""

    at_s: float
    """The time on the daemon's clock."""
    counts: Mapping[int, Count] = field(default_factory=dict)
    """The counts of VMs that have a log."""
    absent: Mapping[int, float] = field(default_factory=dict)
    """The seconds for which running VMs have never answered, by VM id."""
    more: Mapping[str, float] = field(default_factory=dict)
    """Further measurements such as `exit` and `load`."""


class Probe(Protocol):
    """The interface of a way to look at the application in VMs."""

    async def look(self) -> ProbeResult:
        """Look at all VMs once."""

    def close(self) -> None:
        """Close all connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeMemory:
    """The monitor's memory of one VM."""

    first_s: float
    """The time at which it was first reported as running."""
    up: bool = False
    """Whether it has answered and was configured."""
    position: Position = field(default_factory=Position)
    count: Count | None = None
    """The iterations in its log; None if it has no log."""
    key: str = ""
    """The VM's creation key, which tells apart VMs with the same id; empty if not known yet."""
    named_s: float = 0.0
    """The time at which the news last named it."""

    def written(self) -> dict[str, Any]:
        """Return the memory as values for JSON."""
        return asdict(self)

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> "ProbeMemory":
        """Restore the memory from the values of `written`."""
        count = stored["count"]
        if count is not None:
            count = Count(**{**count, "took_s": tuple(count["took_s"])})
        return cls(
            first_s=stored["first_s"],
            up=stored["up"],
            position=Position(**stored["position"]),
            count=count,
            key=stored.get("key", ""),
            named_s=stored.get("named_s", 0.0),
        )


def memory_of_vms(
    known: Mapping[int, ProbeMemory], there: Mapping[int, VmNow], at_s: float
) -> dict[int, ProbeMemory]:
    """Return the memory of VMs after news that name the VMs `there`.

    A VM that is away stays configured. The absence of a VM that has never answered restarts when
    it runs again.
    """
    kept = {
        vm: memory
        for vm, memory in known.items()
        if vm not in there and memory.up and abs(at_s - memory.named_s) <= KEPT_S
    }
    for vm, now in there.items():
        before = known.get(vm)
        if before is None or before.key not in {"", now.key}:
            before = ProbeMemory(first_s=at_s)
        if before.up or now.state == "running":
            kept[vm] = replace(before, key=now.key, named_s=at_s)
    return kept


class Notebook:
    """The file with a monitor's memory. It is replaced atomically, and ignored if it is broken."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> dict[int, ProbeMemory]:
        """Return the stored memory; empty without a valid file."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            stored = json.loads(self._path.read_text())
            return {int(vm): ProbeMemory.read(memory) for vm, memory in stored.items()}
        return {}

    def keep(self, known: Mapping[int, ProbeMemory]) -> None:
        """Store the memory, replacing the old file."""
        half = self._path.with_suffix(".new")
        half.write_text(json.dumps({str(vm): memory.written() for vm, memory in known.items()}))
        half.replace(self._path)
