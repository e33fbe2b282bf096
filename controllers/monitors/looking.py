"""What a look at a virtual cluster's application comes to, and how it is kept between restarts."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from controllers.monitors.counting import Count
from controllers.monitors.tail import Position
from merkatd.platforms.ports import VmNow

KEPT_S: Final = 3_600.0
"""So long a VM that no news name is remembered: they may leave out one that is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
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

    async def look(self) -> Seen:
        """Once, at all VMs."""

    def close(self) -> None:
        """Let go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
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
    def read(cls, told: Mapping[str, Any]) -> "Known":
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
    known: Mapping[int, Known], there: Mapping[int, VmNow], at_s: float
) -> dict[int, Known]:
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
            before = Known(first_s=at_s)
        if before.up or now.state == "running":
            kept[vm] = replace(before, key=now.key, named_s=at_s)
    return kept


class Notebook:
    """A file that is whole or not there; without one, or with a broken one, all is read anew."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> dict[int, Known]:
        """What was kept."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            told = json.loads(self._path.read_text())
            return {int(vm): Known.read(one) for vm, one in told.items()}
        return {}

    def keep(self, known: Mapping[int, Known]) -> None:
        """Instead of what was kept before."""
        half = self._path.with_suffix(".new")
        half.write_text(json.dumps({str(vm): one.written() for vm, one in known.items()}))
        half.replace(self._path)
