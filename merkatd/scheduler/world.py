"""Everything the period works with, handed in once: nothing in it looks for anything itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from twisted.internet.defer import Deferred

from merkatd.database import Database
from merkatd.limits import LimitsSettings
from merkatd.scheduler.ports import Cloud, Hypervisors
from merkatd.scheduler.settings import Market, Money, Rhythm

Result = TypeVar("Result")


class Clock(Protocol):
    """A reactor's time, or a virtual one."""

    def seconds(self) -> float:
        """Now."""

    def callLater(  # noqa: N802 - Twisted's name
        self, delay: float, call: Callable[..., object], /, *arguments: object
    ) -> Any:
        """Call it after so many seconds."""


class Executor(Protocol):
    """Where deciding runs, so that it holds nobody up."""

    def run(self, call: Callable[[], Result]) -> Deferred[Result]:
        """Fires with what the call returns."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class World:
    """The cloud, its hosts, the database, time, chance, and the rules."""

    cloud: Cloud
    hypervisors: Hypervisors
    database: Database
    clock: Clock
    executor: Executor
    rng: np.random.Generator
    now: Callable[[], float]
    """Seconds since the epoch, or of the virtual time: what is stored."""
    rhythm: Rhythm = field(default_factory=Rhythm)
    markets: Sequence[Market] = (Market(),)
    strategies: Mapping[str, Any] = field(default_factory=dict)
    """Settings by strategy name, where they are not the defaults."""
    limits: LimitsSettings = field(default_factory=LimitsSettings)
    money: Money = field(default_factory=Money)
