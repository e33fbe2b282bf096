"""The CPU time of the conformance suite, by strategy of the registry.

python benchmarks/bench_conformance.py [STRATEGY...]

A strategy's part of the suite may take 60 seconds of CPU on the quiet machine, with its functions
interpreted: the clouds are small, and compiling takes longer than deciding them. The time is
divided by how much slower than that the machine is at the moment (`tests/machine_speed.py`).
"""

import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.support.measurement import Figures
from merkatd.placement import STRATEGIES
from tests.machine_speed import slowness

SUITE = "tests/placement/conformance"
LIMIT_S = 60.0


def cpu_s(strategy: str) -> float:
    """Return the CPU time of one strategy's tests; raise CalledProcessError if one fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", SUITE, "-k", strategy],
        cwd=ROOT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(strategies: Sequence[str]) -> int:
    """Print the time of each strategy; return 1 if one exceeds the limit or fails its tests."""
    figures = Figures()
    for strategy in strategies or list(STRATEGIES):
        slow = slowness()
        try:
            took_s = cpu_s(strategy)
        except subprocess.CalledProcessError as error:
            print(f"{strategy}: its tests fail (exit code {error.returncode})", file=sys.stderr)
            return 1
        slow = max((slow + slowness()) / 2, 1.0)
        figures.plain(f"conformance of {strategy}, as measured, s of CPU", took_s)
        figures.at_most(f"conformance of {strategy}, s of CPU", took_s / slow, LIMIT_S)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
