"""Every command of the tour works as printed."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.commands.asking import Shell

ROOT = Path(__file__).parents[2]
PATIENCE_S = 300.0
INSTALLED = str(Path(sys.executable).parent)


def commands() -> list[str]:
    """Return every command line of the page."""
    page = (ROOT / "docs/tour.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


def test_every_command_of_the_tour_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run in the order of the page, beside the demo of its first line.

    A shell reads each line and sets the variables; the commands of merkatd run in this process.
    The demo runs at twice its pace, because a test reads faster than people do.
    """
    first, *others = (line.replace(".venv/bin", INSTALLED) for line in commands())
    assert "--speed 12" in first
    shell = Shell(capsys)
    monkeypatch.chdir(ROOT)
    with _in_background(first.replace("--speed 12", "--speed 24"), tmp_path):
        _wait_until_vms_run(tmp_path, shell)
        variables = _environment(tmp_path)
        for line in others:
            name, assigns, _ = line.partition("=$(")
            if assigns:
                (variables[name],) = _read_by_shell(f'{line}; printf "%s\\n" "${name}"', variables)
                assert variables[name], f"{line} finds nothing"
                continue
            command, *words = _read_by_shell(f'printf "%s\\n" {line}', variables)
            assert command == f"{INSTALLED}/merkatd"
            result = shell(*words)
            assert (result.code, result.err) == (0, ""), line
            assert result.out.strip(), f"{line} says nothing"
    assert not list(tmp_path.iterdir())


def _read_by_shell(line: str, variables: Mapping[str, str]) -> list[str]:
    """Return the lines that this line prints in a shell with these variables."""
    ended = subprocess.run(
        ["bash", "-c", line], env=dict(variables), capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, ""), line
    return ended.stdout.splitlines()


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


def _wait_until_vms_run(place: Path, shell: Shell) -> None:
    """Wait as long as a reader of the first part would at most."""
    ending_s = time.monotonic() + PATIENCE_S
    listing = "list vms -f STATE=RUNNING --no-header --config"
    while time.monotonic() < ending_s:
        for config in place.glob("merkat-demo-*/merkatd.toml"):
            if shell(*listing.split(), str(config)).out.strip():
                return
        time.sleep(0.1)
    raise AssertionError("no VM ran")
