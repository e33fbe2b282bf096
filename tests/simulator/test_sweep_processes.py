"""The processes of a sweep."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_PATIENCE_S = 20.0
_SWEEP = """
import os, time
from simulator import sweep
if __name__ == "__main__":
    with sweep.local(2) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 600)
        pool.submit(time.sleep, 600).result()
"""


def runs(process: int) -> bool:
    """Return whether a process runs."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_sweep_that_is_killed_leaves_no_worker(tmp_path: Path) -> None:
    """Each run may take minutes, and its row would be lost."""
    script = tmp_path / "killed.py"
    script.write_text(_SWEEP)
    words = [sys.executable, str(script)]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as begun:
        assert begun.stdout is not None
        worker = int(begun.stdout.readline())
        begun.kill()
        begun.wait(_PATIENCE_S)
    try:
        ending_s = time.monotonic() + _PATIENCE_S
        while runs(worker) and time.monotonic() < ending_s:
            time.sleep(0.05)
        assert not runs(worker)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
