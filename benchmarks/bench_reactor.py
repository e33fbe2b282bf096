"""How long a period of a large cloud blocks the daemon's reactor.

python benchmarks/bench_reactor.py

100,000 VMs on 10,000 hosts (change it with `MERKAT_BENCH_VMS`), cloud and daemon in a process each,
for two periods: the first has much work, the second little. That takes about eight minutes. The
limit is 50 ms on a machine where the reference takes 40 ms.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.support.measurement import Figures
from tests.daemon.large import prepare_state
from tests.embedded.process import remote

VMS = int(os.environ.get("MERKAT_BENCH_VMS", "100000"))
HOSTS = max(VMS // 10, 1)
PENDING = 240
PERIODS = 2


def main() -> int:
    """Print the longest block of the reactor in each period; return 1 if a limit is missed."""
    figures = Figures()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        print(f"creating a cloud of {VMS} VMs", file=sys.stderr)
        prepare_state(directory / "cloud.db", PENDING, HOSTS, VMS)
        with remote("--state", str(directory / "cloud.db")) as cloud:
            probe = (sys.executable, "-m", "tests.daemon.reactor_probe")
            asked = (*probe, name, cloud.endpoint, str(PERIODS))
            finished = subprocess.run(asked, cwd=ROOT, check=True, stdout=subprocess.PIPE)
        measured = json.loads(finished.stdout)
    limit_s = 1.25 * max(measured["reference_s"], 0.04)
    figures.plain("reference, s", measured["reference_s"])
    figures.plain("start, longest hold, s", measured["start_s"])
    for number, period in enumerate(measured["periods"], start=1):
        name = f"period {number} of {VMS} VMs, longest hold, s ({period['where'] or 'not seen'})"
        figures.at_most(name, period["held_s"], limit_s)
    return figures.exit_code()


if __name__ == "__main__":
    sys.exit(main())
