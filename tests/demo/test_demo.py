"""The demo program ends in order however it is ended, and leaves no files or processes."""

import contextlib
import os
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from merkatd.cli import main
from tests.demo.programs import Running, started

PATIENCE_S = 30.0


@pytest.fixture
def place() -> Iterator[Path]:
    """Return the folder for temporary files; its path is short, as sockets require."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


def test_in_a_pipe_the_demo_prints_a_log_and_ends_by_itself(place: Path) -> None:
    """The log has a line a period, a line a decision, and a summary."""
    with started(place, "--seconds", "3.5") as demo:
        out = demo.rest()
        assert demo.end() == 0
    assert f"merkatd status --config {place}/merkat-demo-" in out.splitlines()[0]
    assert "period 3: " in out
    assert "    ana arrives with 4 VMs and bids " in out
    assert "    deploy ana-1 to host00" in out
    assert_summary(out)
    assert_nothing_left(demo, place)


def test_a_closed_pipe_ends_the_demo(place: Path) -> None:
    """A pipe to `head` closes in this way."""
    with started(place, "--plain", "--seconds", "60") as demo:
        demo.until("period 1: ")
        demo.close_output()
        assert demo.end() == 1
    assert_nothing_left(demo, place)


@pytest.mark.parametrize("ended_by", ["Ctrl-C", "hang-up"])
def test_the_demo_draws_on_a_terminal(place: Path, ended_by: str) -> None:
    """The first frame appears soon, and the terminal is restored before the summary."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    before = termios.tcgetattr(slave)
    began_s = time.monotonic()
    with started(place, "--seconds", "60", terminal=slave) as demo:
        screen = _read_until(master, "HOSTS")
        assert time.monotonic() - began_s < 60.0  # for a loaded machine; 3 s on an idle one
        assert screen.startswith("\x1b[?1049h\x1b[?25l")
        if ended_by == "Ctrl-C":
            demo.interrupt()
        else:
            demo.signal(signal.SIGHUP)
        screen += _read_until(master, "\nall ")
        assert demo.end() == 0
    for shown in ("merkat demo", "ana", "flo", "DECISIONS"):
        assert shown in screen
    assert_summary(screen.partition("\x1b[?25h\x1b[?1049l")[2])
    assert termios.tcgetattr(slave) == before
    os.close(slave)
    os.close(master)
    assert_nothing_left(demo, place)


@pytest.mark.parametrize(
    "words",
    [["--seconds", "0"], ["--hosts", "41"], ["--speed", "601"], ["--seed", "-1"], ["--hosts", "x"]],
)
def test_invalid_options_are_rejected(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The error is one line that names the option, and no process starts."""
    with pytest.raises(SystemExit) as ended:
        main(["demo", *words])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words[0] in line


def assert_summary(out: str) -> None:
    """Check that the summary lists every tenant and its result."""
    assert "Results of each tenant:" in out
    for name in ("ana", "bo", "cy", "di", "ed", "flo", "gus"):
        assert any(line.startswith(f"{name} ") for line in out.splitlines())
    assert out.rstrip().splitlines()[-1].startswith("all ")
    assert all(len(line) <= 80 for line in out.partition("Who got")[2].splitlines())


def assert_nothing_left(demo: Running, place: Path) -> None:
    """Check that no file, socket or process is left."""
    assert not list(place.iterdir())
    with pytest.raises(ProcessLookupError):
        os.killpg(demo.pid, 0)


def _read_until(master: int, text: str) -> str:
    """Return the terminal's output until it contains a text."""
    seen, ending_s = b"", time.monotonic() + PATIENCE_S
    os.set_blocking(master, False)
    while text.encode() not in seen:
        assert time.monotonic() < ending_s, seen.decode()[-2000:]
        with contextlib.suppress(BlockingIOError, subprocess.TimeoutExpired):
            seen += os.read(master, 1 << 16)
        time.sleep(0.02)
    time.sleep(0.1)
    with contextlib.suppress(BlockingIOError):
        seen += os.read(master, 1 << 16)
    return seen.decode().replace("\r\n", "\n")
