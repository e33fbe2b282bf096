"""The program: it ends well however it is ended, and leaves nothing behind."""

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
    """Where the program puts what is temporary; near the root, for sockets' paths are short."""
    with TemporaryDirectory() as found:
        yield Path(found)


def test_plain_it_ends_by_itself(place: Path) -> None:
    """A line a period, a line a decision, a summary."""
    with started(place, "--plain", "--seconds", "3.5") as demo:
        out = demo.rest()
        assert demo.end() == 0
    assert f"merkatd status --config {place}/merkat-demo-" in out.splitlines()[0]
    assert "period 3: " in out
    assert "    ana arrives with 4 VMs and bids " in out
    assert "    deploy ana-1 to host00" in out
    assert_summary(out)
    assert_nothing_left(demo, place)


def test_a_pipe_that_is_no_terminal_gets_the_log(place: Path) -> None:
    """And Ctrl-C ends it with its summary."""
    with started(place, "--seconds", "60") as demo:
        demo.until("period 2: ")
        demo.interrupt()
        out = demo.rest()
        assert demo.end() == 0
    assert_summary(out)
    assert_nothing_left(demo, place)


def test_whoever_reads_no_more_ends_it(place: Path) -> None:
    """As in a pipe to head."""
    with started(place, "--seconds", "60") as demo:
        demo.until("period 1: ")
        demo.close_output()
        assert demo.end() == 1
    assert_nothing_left(demo, place)


@pytest.mark.parametrize("ended_by", ["itself", "Ctrl-C", "hang-up"])
def test_on_a_terminal_it_draws(place: Path, ended_by: str) -> None:
    """The first frame comes soon, and the terminal is restored before the summary is written."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    before = termios.tcgetattr(slave)
    seconds = "2" if ended_by == "itself" else "60"
    began_s = time.monotonic()
    with started(place, "--seconds", seconds, terminal=slave) as demo:
        screen = _read_until(master, "HOSTS")
        assert time.monotonic() - began_s < 60.0  # on a machine that does much else; 3 s else
        assert screen.startswith("\x1b[?1049h\x1b[?25l")
        if ended_by == "Ctrl-C":
            demo.interrupt()
        elif ended_by == "hang-up":
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
def test_wrong_words_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """In a line that names the option, and with nothing started."""
    with pytest.raises(SystemExit) as ended:
        main(["demo", *words])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words[0] in line


def assert_summary(out: str) -> None:
    """It names everybody, and what they got for how much."""
    assert "Results of each tenant:" in out
    for name in ("ana", "bo", "cy", "di", "ed", "flo"):
        assert any(line.startswith(f"{name} ") for line in out.splitlines())
    assert out.rstrip().splitlines()[-1].startswith("all ")
    assert all(len(line) <= 80 for line in out.partition("Who got")[2].splitlines())


def assert_nothing_left(demo: Running, place: Path) -> None:
    """No file, no socket, no process."""
    assert not list(place.iterdir())
    with pytest.raises(ProcessLookupError):
        os.killpg(demo.pid, 0)


def _read_until(master: int, text: str) -> str:
    """What the terminal is told until a text is among it."""
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
