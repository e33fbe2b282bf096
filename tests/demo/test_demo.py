"""The demo program ends in order however it is ended, and leaves no files or processes."""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from merkatd.cli import main
from tests.daemon.processes import until
from tests.demo.programs import Running, started

PATIENCE_S = 180.0


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
    assert "tenants bid for the CPU and memory of a simulated cloud" in out.splitlines()[0]
    assert f"merkatd status --config {place}/merkat-demo-" in out
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
    with started(place, "--seconds", "60", terminal=slave) as demo:
        screen = _read_until(master, "Seven tenants")
        introduction, frames = screen.split("\x1b[?1049h\x1b[?25l")
        assert "Loading the program" in introduction
        assert "starting the daemon and its cloud" in frames
        if ended_by == "Ctrl-C":
            demo.interrupt()
        else:
            demo.signal(signal.SIGHUP)
        screen += _read_until(master, "\nall ")
        assert demo.end() == 0
    for shown in ("merkat demo", "Seven tenants bid for 4 hosts", "ana", "flo", "DECISIONS"):
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


@pytest.mark.parametrize(
    ("environment", "style"),
    [
        ({"TERM": "xterm-256color"}, "\x1b[38;5;16;48;5;"),
        ({"TERM": "linux"}, "\x1b[44;97m"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, None),
    ],
)
def test_the_demo_draws_in_the_terminals_colours(
    place: Path, environment: dict[str, str], style: str | None
) -> None:
    """VMs are blocks with names in 256 or 16 colours; with NO_COLOR they are letters only."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, 80))
    with started(place, "--seconds", "600", terminal=slave, environment=environment) as demo:
        shown = "Aaaaa" if style is None else "ana-1 "
        screen = _read_until(master, shown)
        demo.interrupt()
        screen += _read_until(master, "\nall ")
        assert demo.end() == 0
    if style is None:
        assert not re.search(r"\x1b\[[0-9;]+m(?<!\[0m)", screen)
        assert "each letter" in screen
    else:
        assert style in screen
    os.close(slave)
    os.close(master)
    assert_nothing_left(demo, place)


def test_a_period_comes_in_each_simulated_minute_beside_busy_programs(place: Path) -> None:
    """The machine has more to do than it can; the simulated time waits for the daemon."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(max(4, 2 * (os.cpu_count() or 1)))
    ]
    try:
        with started(place, "--seconds", "8") as demo:
            out = demo.rest()
            assert demo.end() == 0
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    minutes, periods = map(
        int, re.findall(r"^(\d+) minutes of .*?, (\d+) periods", out, re.MULTILINE)[0]
    )
    assert minutes == 8
    assert minutes <= periods <= minutes + 2
    displayed = re.findall(r"^period (\d+): ", out, re.MULTILINE)
    assert len(displayed) >= periods - 1, "tenants act between all periods"


@pytest.mark.parametrize("killed", ["parent", "grandparent"])
def test_the_demo_ends_when_the_program_that_started_it_is_killed(place: Path, killed: str) -> None:
    """A killed parent can tell it nothing, and neither can make behind a shell."""
    log = place / "log"
    demo = f"{sys.executable} -m merkatd.cli demo --plain --seconds 6000"
    inner = f"echo $$ >{place}/parent; {demo} >{log} 2>&1 & echo $! >{place}/demo; wait"
    starter = subprocess.Popen(
        # With nohup, which these tests may run in, the demo outlives its parents.
        ["env", "--default-signal=HUP", "sh", "-c", f"sh -c {shlex.quote(inner)}; true"],
        env=os.environ | {"TMPDIR": str(place), "NUMBA_DISABLE_JIT": "1"},
        start_new_session=True,
    )
    try:
        until(lambda: log.exists() and "period 1:" in log.read_text(), "the first period")
        process = int((place / "demo").read_text())
        parent = int((place / "parent").read_text())
        os.kill(parent if killed == "parent" else starter.pid, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{process}/cmdline").exists() or _is_zombie(process), "end")
        assert not list(place.glob("merkat-demo-*"))
        assert "Results of each tenant:" in log.read_text()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(starter.pid, signal.SIGKILL)
        starter.wait()


def _is_zombie(process: int) -> bool:
    """Return whether a process has ended, and its new parent has not read its exit code."""
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


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
