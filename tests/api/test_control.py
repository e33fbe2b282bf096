"""Commands to a real daemon over its UNIX socket."""

import json
import os
import pty
import socket
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from merkatd.api.control import control_client
from merkatd.api.control.control_client import ControlError, DaemonNotRunningError, ask
from merkatd.cli import main
from merkatd.commands.terminal.screen_text import width
from tests.commands.asking import Said
from tests.daemon.processes import Program, until


class Site:
    """A daemon on its own embedded cloud."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "merkatd.toml"
        self.socket = folder / "state" / "control.sock"
        self.config.write_text(
            f'[daemon]\nstate_directory = "{folder}/state"\n'
            '[period]\ninterval = "300ms"\n[cloud]\nhosts = 3\n'
        )
        self.program = Program(folder / "log", "run", "--config", str(self.config))
        until(lambda: self.latest() is not None, "a period that came to its end")

    def latest(self) -> int | None:
        """Return the number of the latest period, or None without an answer."""
        try:
            period: int | None = ask(self.socket, "status")["period"]
        except ControlError:
            return None
        return period

    def run(self, *words: str) -> Said:
        """Run a command in a separate process."""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "merkatd.cli", *words, "--config", self.config],
            capture_output=True,
            text=True,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)


def test_a_late_answer_does_not_count_as_a_missing_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the database hangs, a grant is made later: repeated, it would be made twice."""
    monkeypatch.setattr(control_client, "TIMEOUT_S", 0.05)
    path = tmp_path / "control.sock"
    with socket.socket(socket.AF_UNIX) as slow:
        slow.bind(str(path))
        slow.listen()
        with pytest.raises(ControlError, match="check before you repeat it") as late:
            ask(path, "tenant_grant", {"tenant": "0", "credits": 10.0})
    assert not isinstance(late.value, DaemonNotRunningError)


Ask = Callable[..., Said]
"""Run a command in this process."""


@pytest.fixture
def ask_here(site: Site, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Return a function that runs a command with the daemon's configuration in this process."""

    def run(*words: str) -> Said:
        code = main([*words, "--config", str(site.config)])
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a site that is stopped with SIGTERM, as by an administrator."""
    made = Site(tmp_path_factory.mktemp("site"))
    yield made
    made.program.tell_to_end()
    assert made.program.end() == 0


def test_commands_reach_the_daemon(site: Site, tmp_path: Path, ask_here: Ask) -> None:
    """They list rows, show a dry run, save a snapshot and replay it."""
    hosts = site.run("list", "hosts", "--csv", "--no-header", "-l", "ID,STAT")
    assert (hosts.code, hosts.lines, hosts.err) == (0, ["0,on", "1,on", "2,on"], "")
    assert ask_here("plan").out.startswith("Period ")
    saved = ask_here("snapshot", "save", str(tmp_path / "a.npz"))
    assert saved.code == 0, saved
    assert ask_here("plan", "--snapshot", str(tmp_path / "a.npz")).code == 0
    unknown = ask_here("explain", "7")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err == "merkatd explain: no VM has the id or name '7'\n"


def test_pause_and_resume(site: Site) -> None:
    """The daemon reports that it is paused; after `resume` it continues."""
    assert ask(site.socket, "pause") is True
    before = site.latest()
    assert ask(site.socket, "status")["paused"] is True
    assert ask(site.socket, "resume") is True
    until(lambda: site.latest() != before, "another period")


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"no JSON\n",
        b"7\n",
        b"{}\n",
        b'{"question": 5}\n',
        b'{"question": "nothing"}\n',
        b"[" * 50_000 + b"\n",
        b"\xff\xfe\x00\n",
        b'{"question": "explain", "vm": {"a": [1]}}\n',
        b'{"question": "bid", "vm": "\\ud800", "cpu": 1e999}\n',
    ],
)
def test_garbage_is_answered_with_an_error(line: bytes, site: Site) -> None:
    """The daemon continues."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10.0)
        connection.connect(str(site.socket))
        connection.sendall(line)
        answer = json.loads(connection.makefile("rb").readline())
    assert set(answer) == {"error"}
    assert len(answer["error"]) < 700
    assert site.latest() is not None


def test_a_request_without_an_end_is_disconnected(site: Site) -> None:
    """No client can fill the daemon's memory."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10.0)
        connection.connect(str(site.socket))
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            connection.sendall(b"x" * 100_000_000)
    assert site.latest() is not None


_SIZE = {"COLUMNS", "LINES"}
"""Variables that would override the terminal's size."""


@pytest.mark.parametrize(("columns", "lines"), [(200, 50), (40, 8)])
def test_top_is_live_and_ends_with_q(columns: int, lines: int, site: Site) -> None:
    """It fits a terminal of any size and restores it."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (lines, columns))
    before = termios.tcgetattr(theirs)
    words = [sys.executable, "-m", "merkatd.cli", "top", "-d", "0.1", "--config", str(site.config)]
    environment = {name: os.environ[name] for name in os.environ if name not in _SIZE}
    top = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    screen = b""
    while screen.count(b"\x1b[H") < 3:
        screen += os.read(ours, 65_536)
    os.write(ours, b"q")
    while b"\x1b[?1049l" not in screen:
        screen += os.read(ours, 65_536)
    assert top.wait(10) == 0
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)
    frames = screen.decode().split("\x1b[H")[1:-1]
    for frame in frames:
        shown = frame.replace("\x1b[K", "").replace("\x1b[J", "").split("\r\n")
        assert len(shown) <= lines
        assert max(map(width, shown)) <= columns
        assert shown[0].startswith("merkatd  period ")
