"""What a look at a virtual cluster's application comes to, and how it is kept between restarts."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from controllers.monitors.counting import Count
from controllers.monitors.tail import Position


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
        )


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
