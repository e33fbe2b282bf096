"""`make test-real`: prepare, run the tests in their own namespaces, check that nothing is left.

Everything that a test starts is in process, mount and network namespaces that end with this
program, however it ends: no process, mount, bridge or temporary file can outlive it. Control groups
and an empty directory can. They are removed at the end, or at the next start if this program was
killed. The command's arguments are passed to pytest.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.real import controls, guest, made, packages

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BESIDE = (
    *(
        "test_columns.py",
        "test_demo.py",
        "test_install.py",
        "test_package.py",
        "test_package_service.py",
    ),
    *("test_page.py", "test_prometheus.py", "test_service.py", "test_tenant_machine.py"),
    "test_testbed.py",
    *("test_web.py", "test_web_forms.py", "test_web_https.py", "test_web_restart.py"),
)
"""Tests that mostly wait, and measure no speed."""
QUEUES = tuple(
    f"applications/test_{name}.py" for name in ("frameworks", "gridengine", "kill", "slurm")
)
"""Tests whose jobs only sleep, or whose time is not limited."""
_FOR_PARENTS_END = ("setpriv", "--pdeathsig", "KILL")
_NAMESPACES = ("--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child")


def main(words: Sequence[str]) -> int:
    """Run the tests that need the machine for themselves, then all others."""
    turns = [[words]] if words else [[_but(BESIDE, QUEUES)], [_paths(BESIDE), _paths(QUEUES)]]
    return run(partial(_prepare, words), *turns)


def _paths(names: Sequence[str]) -> list[str]:
    return [str(HERE / name) for name in names]


def _but(*others: Sequence[str]) -> list[str]:
    return [str(HERE), *(f"--ignore={path}" for names in others for path in _paths(names))]


def _prepare(words: Sequence[str]) -> None:
    packages.install()
    guest.built()
    made.make(words)


def run(prepare: Callable[[], None], *turns: Sequence[Sequence[str]]) -> int:
    """Run several pytests at once in each turn; return the greatest exit code.

    The exit code is 2 if they could not be started, and 3 if they leave anything behind.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    try:
        prepare()
    except packages.MissingError as error:
        packages.say(str(error))
        return 2
    _sweep()
    return max(_together(turn) for turn in turns)


def _together(turn: Sequence[Sequence[str]]) -> int:
    groups = [f"{controls.PREFIX}{os.getpid()}-{number}" for number in range(len(turn))]
    with contextlib.ExitStack() as stack:
        trees = [
            stack.enter_context(_started(group, words, quiet=group != groups[0]))
            for group, words in zip(groups, turn, strict=True)
        ]
        # Ctrl-C reaches pytest too, which then closes its hosts and daemons: wait for it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, partial(_killed, trees))
        codes = [tree.process.wait() for tree in trees]
    remains = [what for tree in trees for what in left(tree.group, tree.place)]
    for what in remains:
        packages.say(f"left behind: {what}")
    return 3 if remains else max(codes)


@dataclass(frozen=True, slots=True)
class _Tree:
    """A pytest with all processes that it starts."""

    process: subprocess.Popen[bytes]
    group: str
    place: str


def _killed(trees: Sequence[_Tree], *_: object) -> None:
    for tree in trees:
        tree.process.kill()


@contextlib.contextmanager
def _started(group: str, words: Sequence[str], *, quiet: bool) -> Iterator[_Tree]:
    """Start a pytest and end it at the end; print a quiet one's output once it has ended."""
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(tempfile.TemporaryFile())
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{group}-"))
        controls.make(group, heavy=True)
        stack.callback(controls.remove, group)
        process = subprocess.Popen(
            [
                *(*_FOR_PARENTS_END, "unshare", *_NAMESPACES),
                *(sys.executable, "-m", "tests.real.inside", group, *words),
            ],
            cwd=ROOT,
            env=os.environ | {"MERKAT_REAL": place},
            stdout=output if quiet else None,
            stderr=subprocess.STDOUT if quiet else None,
        )
        try:
            yield _Tree(process, group, place)
        finally:
            process.kill()
            process.wait()
            output.seek(0)
            sys.stdout.buffer.write(output.read())
            sys.stdout.flush()


def left(group: str, place: str) -> list[str]:
    """Return what remains of a run that is over."""
    remains = [f"control group {name}" for name in controls.left() if name == group]
    remains += [
        f"process {path.parent.name}"
        for path in Path("/proc").glob("[0-9]*/environ")
        if _marked(path, place)
    ]
    if place in Path("/proc/self/mounts").read_text() or Path(place).exists():
        remains.append(f"directory or mount {place}")
    return remains


def _marked(environment: Path, place: str) -> bool:
    with contextlib.suppress(OSError):
        return f"MERKAT_REAL={place}\0".encode() in environment.read_bytes()
    return False


def _sweep() -> None:
    """Remove the control groups and directories of runs that were killed."""
    for name in controls.left():
        if not _runs(name):
            controls.remove(name)
    for place in Path(tempfile.gettempdir()).glob(f"{controls.PREFIX}[0-9]*-*"):
        if not _runs(place.name):
            # Its content was in the run's own mounts, which are gone.
            with contextlib.suppress(OSError):
                place.rmdir()


def _runs(name: str) -> bool:
    """Return whether the run with this name is still under way."""
    pid, _, _ = name.removeprefix(controls.PREFIX).partition("-")
    return Path("/proc", pid).exists()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
