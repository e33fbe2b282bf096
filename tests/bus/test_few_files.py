"""If no more files can be opened, opening the bus fails and the daemon continues."""

import subprocess
import sys

PROBE = """
import os, resource, sys
from merkatd.bus.hub import Hub
from merkatd.protocol.curve_keys import fresh
from merkatd.bus.socket_paths import LOOPBACK
from merkatd.bus.settings import BusSettings
import asyncio

async def opened():
    keys = fresh()
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    taken = []
    for left in map(int, sys.argv[1:]):
        while True:
            try:
                taken.append(os.dup(0))
            except OSError:
                break
        for _ in range(left):
            os.close(taken.pop())
        before = len(os.listdir("/proc/self/fd"))
        settings = BusSettings(endpoint=LOOPBACK)
        try:
            Hub(keys, None, lambda: 0.0, settings, lambda platform, role: None)
        except OSError:
            print(left, "refused", len(os.listdir("/proc/self/fd")) - before, flush=True)
        else:
            print(left, "open", flush=True)

asyncio.run(opened())
"""


def _run_with(*left: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROBE, *map(str, left)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def test_a_bus_without_free_files_is_an_error_and_does_not_abort() -> None:
    """The library libzmq would abort with 2 to 4, or 8 to 9, files left."""
    numbers = range(2, 12)
    run = _run_with(*numbers)
    lines = "".join(f"{left} refused 0\n" for left in numbers)
    assert (run.returncode, run.stdout) == (0, lines), run.stderr[-500:]


def test_the_bus_opens_with_the_required_number_of_files() -> None:
    """With 33 files left the bus opens."""
    run = _run_with(33)
    assert (run.returncode, run.stdout) == (0, "33 open\n"), run.stderr[-500:]
