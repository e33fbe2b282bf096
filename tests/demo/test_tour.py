"""Every command of the tour works as printed."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE_S = 40.0
INSTALLED = str(Path(sys.executable).parent)


def commands() -> list[str]:
    """Return every command line of the page."""
    page = (ROOT / "docs/tour.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


def test_every_command_of_the_tour_runs(tmp_path: Path) -> None:
    """They run in the order of the page, in one shell, beside the demo of its first line.

    The demo runs at twice its pace, because a test reads faster than people do.
    """
    first, *others = (line.replace(".venv/bin", INSTALLED) for line in commands())
    assert "--speed 12" in first
    with _in_background(first.replace("--speed 12", "--speed 24"), tmp_path):
        _wait_until_vms_run(tmp_path)
        asked = "\n".join(f"{line} || exit 99\necho {_END}" for line in others)
        told = subprocess.run(
            ["bash", "-c", asked],
            cwd=ROOT,
            env=_environment(tmp_path),
            capture_output=True,
            check=False,
        )
    parts = told.stdout.decode().split(f"{_END}\n")
    assert told.returncode == 0, f"{others[len(parts) - 1]}: {told.stderr.decode()}"
    assert not told.stderr
    for line, said in zip(others, parts, strict=False):
        assert said.strip() or "=$(" in line, f"{line} says nothing"
    assert not list(tmp_path.iterdir())


_END = "-- the end of a command --"


def _environment(place: Path) -> dict[str, str]:
    return os.environ | {"TMPDIR": str(place), "NUMBA_DISABLE_JIT": "1"}


@contextlib.contextmanager
def _in_background(command: str, place: Path) -> Iterator[None]:
    demo = subprocess.Popen(
        command.split(), cwd=ROOT, env=_environment(place), stdout=subprocess.DEVNULL
    )
    try:
        yield
        demo.send_signal(signal.SIGINT)
        assert demo.wait(PATIENCE_S) == 0
    finally:
        if demo.poll() is None:
            demo.kill()
        demo.wait()


def _wait_until_vms_run(place: Path) -> None:
    """Wait as long as a reader of the first part would at most."""
    ending_s = time.monotonic() + PATIENCE_S
    listing = f"{INSTALLED}/merkatd list vms -f STATE=RUNNING --no-header --config"
    while time.monotonic() < ending_s:
        for found in place.glob("merkat-demo-*/merkatd.toml"):
            told = subprocess.run(
                [*listing.split(), str(found)], cwd=ROOT, capture_output=True, check=False
            )
            if told.stdout.strip():
                return
        time.sleep(0.5)
    raise AssertionError("no VM ran")
