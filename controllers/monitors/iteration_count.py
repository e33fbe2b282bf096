"""Iterations counted from logs, and what a look comes to."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final, Protocol

from controllers.measurements import ABSENT, LATEST, MADE
from controllers.monitors.log_probe import Position
from merkatd.base.line_patterns import Pattern
from merkatd.protocol.platform_messages import VmNow

PATTERN: Final = r"\bstep\s+(?P<step>\d+)\b.*?(?P<seconds>\d+(?:\.\d+)?)\s*s\b"
"""A line of a log that tells of an iteration, unless the template says otherwise."""
"""Characters of an expression."""
"""Memory of a compiled expression. RE2 lets no other thread run while it compiles: what may take
8 MiB takes a fifth of a second, what may take this much some milliseconds."""
"""Classes of Unicode in an expression: each is hundreds of ranges before it is compiled."""
_DIGITS: Final = 40
_MOST: Final = 1e15
"""An iteration's time is the median of so many: one that a suspension fell into says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What is known of one VM's part of the application."""

    done: int = 0
    took_s: tuple[float, ...] = ()
    """Of the latest iterations, the newest last."""
    at_s: float = 0.0
    """When a new iteration was last seen."""

    @property
    def step_s(self) -> float | None:
        """What an iteration takes lately."""
        return median(self.took_s) if self.took_s else None


def counted(before: Count, lines: Iterable[str], pattern: Pattern, now_s: float) -> Count:
    """After these lines too. A step may be told again, by an application that was started anew."""
    done, took, at_s = before.done, list(before.took_s), before.at_s
    for line in lines:
        found = pattern.search(line)
        if found is None:
            continue
        groups = found.groupdict()
        step = _number(groups["step"])
        if step is None:
            continue
        done, at_s = int(step), now_s
        seconds = _number(groups.get("seconds"))
        if seconds is not None:
            took.append(seconds)
    return Count(done=done, took_s=tuple(took[-LATEST:]), at_s=at_s)


def _number(text: str | None) -> float | None:
    """The number from 0 on that a group holds, None where it holds none."""
    if text is None or len(text) > _DIGITS:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= _MOST else None


def of_guest(told: Mapping[str, Any]) -> Count:
    """What the embedded cloud tells of a guest (`embedded.guest.progress`)."""
    log: Sequence[Sequence[float]] = told["log"]
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
    """What the controller is to know: an application is where its slowest part is."""
    values = {f"{ABSENT}{vm}": seconds for vm, seconds in absent.items()}
    values |= {f"{MADE}{vm}": float(one.done) for vm, one in counts.items()}
    if counts:
        slowest = min(counts.values(), key=lambda one: one.done)
        values["done"] = float(slowest.done)
        if slowest.at_s:
            values["waiting_s"] = max(0.0, now_s - slowest.at_s)
    steps = [one.step_s for one in counts.values() if one.step_s is not None]
    if steps:
        values["step_s"] = max(steps)
    return values


KEPT_S: Final = 3_600.0
"""So long a VM that no news name is remembered: they may leave out one that is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """All VMs of the cluster that run, at one moment."""

    at_s: float
    """On the daemon's clock."""
    counts: Mapping[int, Count] = field(default_factory=dict)
    """Of the VMs that have a log."""
    absent: Mapping[int, float] = field(default_factory=dict)
    """Those that run, as the cloud says, and have never answered: for how many seconds."""
    more: Mapping[str, float] = field(default_factory=dict)
    """`exit`, `load`, whatever else is known."""


class Way(Protocol):
    """How the application in the VMs is looked at."""

    async def look(self) -> ProbeResult:
        """Once, at all VMs."""

    def close(self) -> None:
        """Let go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeMemory:
    """What is known of one VM."""

    first_s: float
    """When it was first said to run."""
    up: bool = False
    """Whether it ever answered, and was configured."""
    position: Position = field(default_factory=Position)
    count: Count | None = None
    """None: it has no log."""
    key: str = ""
    """By which the VM was made: another one of the same id has another. Empty: not known yet."""
    named_s: float = 0.0
    """When the news last named it."""

    def written(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> "ProbeMemory":
        """What was written so."""
        count = told["count"]
        if count is not None:
            count = Count(**{**count, "took_s": tuple(count["took_s"])})
        return cls(
            first_s=told["first_s"],
            up=told["up"],
            position=Position(**told["position"]),
            count=count,
            key=told.get("key", ""),
            named_s=told.get("named_s", 0.0),
        )


def remembered(
    known: Mapping[int, ProbeMemory], there: Mapping[int, VmNow], at_s: float
) -> dict[int, ProbeMemory]:
    """Return what stays known when the news name these VMs.

    One that is away was configured all the same. One that has never answered is missed from the
    moment at which it runs again.
    """
    kept = {
        vm: one
        for vm, one in known.items()
        if vm not in there and one.up and abs(at_s - one.named_s) <= KEPT_S
    }
    for vm, now in there.items():
        before = known.get(vm)
        if before is None or before.key not in {"", now.key}:
            before = ProbeMemory(first_s=at_s)
        if before.up or now.state == "running":
            kept[vm] = replace(before, key=now.key, named_s=at_s)
    return kept


class Notebook:
    """A file that is whole or not there; without one, or with a broken one, all is read anew."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> dict[int, ProbeMemory]:
        """What was kept."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            told = json.loads(self._path.read_text())
            return {int(vm): ProbeMemory.read(one) for vm, one in told.items()}
        return {}

    def keep(self, known: Mapping[int, ProbeMemory]) -> None:
        """Instead of what was kept before."""
        half = self._path.with_suffix(".new")
        half.write_text(json.dumps({str(vm): one.written() for vm, one in known.items()}))
        half.replace(self._path)
