"""Without numba, or where it may not write its cache, the same functions give the same bits."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from merkatd.placement import STRATEGIES, strategy_named
from tests.clouds import crowded, tangled

PROGRAM = """
import sys
import numpy as np
from merkatd.placement import strategy_named
from merkatd.placement.base import compiled
from tests.clouds import crowded, tangled
assert (compiled._njit() is None) == (sys.argv[2] == "no numba"), sys.argv
rng = np.random.default_rng(0)
for snapshot in (tangled(8), tangled(21), tangled(28), crowded(10, 1)):
    decision = strategy_named(sys.argv[1]).decide(snapshot, rng)
    print([(s.vm, s.host, s.reason, s.gain if s.kind == "migrate" else 0) for s in decision.plan])
    print(decision.allocations.tolist(), decision.prices.tolist(), sorted(decision.reasons.items()))
"""

NO_CACHE = """
from merkatd.placement.base.compiled import compiled
import numba.core.caching as caching
caching.CacheImpl._locator_classes = []
print(compiled(lambda x: x + 1)(1))
"""

WITHOUT_NUMBA = "import sys; sys.modules['numba'] = None\n"


def expected(strategy: str) -> str:
    """What this process, with numba, decides."""
    lines = []
    rng = np.random.default_rng(0)
    for snapshot in (tangled(8), tangled(21), tangled(28), crowded(10, 1)):
        decision = strategy_named(strategy).decide(snapshot, rng)
        lines.append(
            str(
                [
                    (s.vm, s.host, s.reason, s.gain if s.kind == "migrate" else 0)  # type: ignore[attr-defined]
                    for s in decision.plan
                ]
            )
        )
        lines.append(
            f"{decision.allocations.tolist()} {decision.prices.tolist()}"
            f" {sorted(decision.reasons.items())}"
        )
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_without_numba_the_same_decisions(strategy: str) -> None:
    """To the bit, and to the word."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA + PROGRAM, strategy, "no numba"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.stderr == ""
    assert done.stdout == expected(strategy)


def test_where_no_cache_can_be_written_it_compiles_for_this_run() -> None:
    """A service whose home and program folders are read-only still decides."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            NO_CACHE,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "2\n", done.stderr
