"""What all benchmarks share: the yardstick, timing, and one line a figure with its limit."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Figures:
    """The figures of one benchmark, printed as they come."""

    missed: list[str] = field(default_factory=list)

    def at_most(self, name: str, value: float, limit: float) -> None:
        """A figure that must not be above its limit."""
        self._print(name, value, f"<= {limit:g}", held=value <= limit)

    def at_least(self, name: str, value: float, limit: float) -> None:
        """A figure that must not be below its limit."""
        self._print(name, value, f">= {limit:g}", held=value >= limit)

    def plain(self, name: str, value: float) -> None:
        """A figure without a limit, to understand the others by."""
        print(f"{name:72} {value:12.4g}", flush=True)

    def _print(self, name: str, value: float, limit: str, *, held: bool) -> None:
        print(f"{name:72} {value:12.4g} {limit:>10}{'' if held else '  MISSED'}", flush=True)
        if not held:
            self.missed.append(name)

    def exit_code(self) -> int:
        """1 where a limit was passed."""
        return 1 if self.missed else 0


def seconds(work: Callable[[], Any], times: int = 5) -> float:
    """The median time of a call, after one that does not count."""
    work()
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        took.append(time.perf_counter() - begin)
    return float(np.median(took))


def yardstick(vms: int) -> float:
    """The median time of a stable argsort of as many fresh uniform floats as there are VMs."""
    rng = np.random.default_rng(0)
    took = []
    for _ in range(15):
        values = rng.random(vms)
        begin = time.perf_counter()
        np.argsort(values, kind="stable")
        took.append(time.perf_counter() - begin)
    return float(np.median(took))
