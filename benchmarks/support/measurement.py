"""Measurement for all benchmarks: yardstick, timing, and a line per figure with its limit."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Figures:
    """The figures of a benchmark, printed at once."""

    missed: list[str] = field(default_factory=list)

    def at_most(self, name: str, value: float, limit: float) -> None:
        """Print a figure that must not exceed its limit."""
        self._print(name, value, f"<= {limit:g}", held=value <= limit)

    def at_least(self, name: str, value: float, limit: float) -> None:
        """Print a figure that must not be below its limit."""
        self._print(name, value, f">= {limit:g}", held=value >= limit)

    def plain(self, name: str, value: float) -> None:
        """Print a figure without a limit, which explains the others."""
        print(f"{name:72} {value:12.4g}", flush=True)

    def _print(self, name: str, value: float, limit: str, *, held: bool) -> None:
        print(f"{name:72} {value:12.4g} {limit:>10}{'' if held else '  MISSED'}", flush=True)
        if not held:
            self.missed.append(name)

    def exit_code(self) -> int:
        """Return 1 if a limit is missed, else 0."""
        return 1 if self.missed else 0


def seconds(work: Callable[[], Any], times: int = 5) -> float:
    """Return the median time of a call, after a first call that does not count."""
    work()
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        took.append(time.perf_counter() - begin)
    return float(np.median(took))


def yardstick(vms: int) -> float:
    """Return the median time of a stable argsort of as many uniform floats as there are VMs."""
    rng = np.random.default_rng(0)
    took = []
    for _ in range(15):
        values = rng.random(vms)
        begin = time.perf_counter()
        np.argsort(values, kind="stable")
        took.append(time.perf_counter() - begin)
    return float(np.median(took))
