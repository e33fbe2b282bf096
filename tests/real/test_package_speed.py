"""The Debian package decides like the sources, to the bit, and as fast as numba."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from merkatd.cluster import Snapshot
from merkatd.cluster.snapshot_npz import to_npz
from tests.clouds import crowded, flavoured, tangled
from tests.real import made

_SLOWEST = 1.1
"""The greatest ratio of a decision's time to that in this checkout, with numba."""
_MOST_TRIES = 6
"""After each try, the least time of a decision in all tries counts."""

_DECIDE = """
import json, sys, time
from hashlib import sha256
from pathlib import Path
import numpy as np
from merkatd.cluster.snapshot_npz import from_npz
from merkatd.placement import STRATEGIES
from merkatd.placement.base.board import with_vm

found = {"numba": "numba" in sys.modules, "form": type(with_vm).__name__, "seconds": {}}
for file in sys.argv[1:]:
    snapshot = from_npz(Path(file).read_bytes())
    for name, strategy in STRATEGIES.items():
        seconds = []
        for _ in range(9):
            begin = time.process_time()
            decision = strategy.decide(snapshot)
            seconds.append(time.process_time() - begin)
        parts = repr((decision.plan, sorted(decision.reasons.items()))).encode()
        for column in (decision.allocations, decision.prices):
            parts += column.tobytes()
        found[f"{Path(file).stem} {name}"] = sha256(parts).hexdigest()
        found["seconds"][f"{Path(file).stem} {name}"] = min(seconds)
print(json.dumps(found))
"""
_WITHOUT_MACHINE_CODE = """
import sys
class Finder:
    @staticmethod
    def find_spec(name, *_rest):
        if ".machine_code_" in name:
            raise ImportError(name)
sys.meta_path.insert(0, Finder)
"""
_CLOUDS: dict[str, Snapshot] = {
    "crowded": crowded(200, 1),
    "flavoured": flavoured(50, 2),
    "tangled": tangled(28),
}


def test_its_decisions_are_those_of_the_sources(tmp_path: Path) -> None:
    """In any folder, without numba and scipy, each strategy gives the same result as fast."""
    subprocess.run(["dpkg-deb", "-x", made.package(), tmp_path], check=True)
    files = []
    for name, snapshot in _CLOUDS.items():
        files.append(tmp_path / f"{name}.npz")
        files[-1].write_bytes(to_npz(snapshot))
    python = tmp_path / "usr/lib/merkat/bin/python"
    packaged_s: dict[str, float] = {}
    ours_s: dict[str, float] = {}
    for _ in range(_MOST_TRIES):
        packaged = _decisions([str(python), "-IBc", _DECIDE], files)
        ours = _decisions([sys.executable, "-c", _WITHOUT_MACHINE_CODE + _DECIDE], files)
        assert (packaged.pop("numba"), packaged.pop("form")) == (
            False,
            "builtin_function_or_method",
        )
        assert (ours.pop("numba"), ours.pop("form")) == (True, "CPUDispatcher")
        _keep_least(packaged_s, packaged.pop("seconds"))
        _keep_least(ours_s, ours.pop("seconds"))
        assert packaged == ours
        slower = {name: packaged_s[name] / ours_s[name] for name in ours_s}
        if max(slower.values()) <= _SLOWEST:
            return
    raise AssertionError({name: ratio for name, ratio in slower.items() if ratio > _SLOWEST})


def _keep_least(least: dict[str, float], times: dict[str, float]) -> None:
    """Lower the least times to these where these are less."""
    for name, time in times.items():
        least[name] = min(least.get(name, time), time)


def _decisions(words: list[str], files: list[Path]) -> dict[str, Any]:
    """Return the digest and the least CPU time of each decision."""
    done = subprocess.run(
        [*words, *map(str, files)],
        cwd=made.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    decisions: dict[str, Any] = json.loads(done.stdout)
    return decisions
