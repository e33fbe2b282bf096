"""`make test-real`: prepare, run the tests in namespaces of their own, see that nothing is left.

Everything that a test starts lives in process, mount and network namespaces that end with
this program, however it ends: no process, mount, bridge or temporary file can outlive it.
What could, control groups and an empty directory, is removed here, and at the next start where
this program was killed. Words on the command line are for pytest.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.real import controls, guest, made, packages

ROOT = Path(__file__).parents[2]
_FOR_PARENTS_END = ("setpriv", "--pdeathsig", "KILL")
_NAMESPACES = ("--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child")


def main(words: Sequence[str]) -> int:
    """Real KVM hosts and containers."""
    return run(partial(_prepare, words), words or [str(Path(__file__).parent)])


def _prepare(words: Sequence[str]) -> None:
    packages.install()
    guest.built()
    made.make(words)


def run(prepare: Callable[[], None], words: Sequence[str]) -> int:
    """The exit code of pytest; 2 where it could not be started, 3 where something is left."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    try:
        prepare()
    except packages.MissingError as error:
        packages.say(str(error))
        return 2
    _sweep()
    group = f"{controls.PREFIX}{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix=f"{group}-") as place:
        controls.make(group, heavy=True)
        try:
            code = _tests(group, place, words)
        finally:
            controls.remove(group)
    remains = left(group, place)
    for what in remains:
        packages.say(f"left behind: {what}")
    return 3 if remains else code


def left(group: str, place: str) -> list[str]:
    """What remains of a run that is over."""
    found = [f"control group {name}" for name in controls.left() if name == group]
    found += [
        f"process {path.parent.name}"
        for path in Path("/proc").glob("[0-9]*/environ")
        if _marked(path, place)
    ]
    if place in Path("/proc/self/mounts").read_text() or Path(place).exists():
        found.append(f"directory or mount {place}")
    return found


def _marked(environment: Path, place: str) -> bool:
    with contextlib.suppress(OSError):
        return f"MERKAT_REAL={place}\0".encode() in environment.read_bytes()
    return False


def _tests(group: str, place: str, words: Sequence[str]) -> int:
    started = subprocess.Popen(
        [
            *(*_FOR_PARENTS_END, "unshare", *_NAMESPACES),
            *(sys.executable, "-m", "tests.real.inside", group, *words),
        ],
        cwd=ROOT,
        env=os.environ | {"MERKAT_REAL": place},
    )
    # Ctrl-C reaches pytest too, which then closes what it has open: wait for that.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: started.kill())
    try:
        return started.wait()
    finally:
        started.kill()
        started.wait()


def _sweep() -> None:
    """Remove the control groups and directories of runs that were killed."""
    for name in controls.left():
        if not _runs(name):
            controls.remove(name)
    for place in Path(tempfile.gettempdir()).glob(f"{controls.PREFIX}[0-9]*-*"):
        if not _runs(place.name):
            # What was in it went with the run's own mounts.
            with contextlib.suppress(OSError):
                place.rmdir()


def _runs(name: str) -> bool:
    """Whether the run still goes on that something is named after."""
    pid, _, _ = name.removeprefix(controls.PREFIX).partition("-")
    return Path("/proc", pid).exists()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
