"""Reading new lines of a log with the shell command that runs on VMs."""

import subprocess
from pathlib import Path

import pytest

from controllers.monitors import log_probe
from controllers.monitors.log_probe import LogPart, Position


class Log:
    """A log that is read as a monitor reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.position = Position()

    def write(self, text: str) -> None:
        """Append text."""
        with self.path.open("a") as file:
            file.write(text)

    def read(self) -> list[str]:
        """Return all new lines."""
        lines: list[str] = []
        while True:
            came = self.once()
            lines += came.lines
            if not came.more:
                return lines

    def once(self) -> LogPart:
        """Return the result of one command."""
        command = log_probe.tail_command(str(self.path), self.position)
        done = subprocess.run(["sh", "-c", command], capture_output=True, check=True)
        came = log_probe.read_tail(self.position, done.stdout)
        self.position = came.position
        return came


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Return a log whose name needs quoting."""
    return Log(tmp_path / "a run's $log")


def test_each_line_is_returned_once_and_complete(log: Log) -> None:
    """An incomplete line is returned once it ends."""
    assert log.read() == []
    log.write("one\ntwo\nth")
    assert log.read() == ["one", "two"]
    assert log.read() == []
    log.write("ree\n")
    assert log.read() == ["three"]


def test_rotation_loses_no_line(log: Log) -> None:
    """The last lines come from the old file, then those of the new one."""
    log.write("one\n")
    assert log.read() == ["one"]
    log.write("two\nthree")
    log.path.rename(f"{log.path}.1")
    log.write("four\n")
    assert log.read() == ["two", "four"]
    log.path.rename(f"{log.path}-20260501")
    assert log.read() == []
    log.write("five\n")
    assert log.read() == ["five"]


def test_an_emptied_log_is_read_from_its_beginning(log: Log) -> None:
    """`copytruncate` empties it, or an application that restarts."""
    log.write("one\ntwo\nthree\n")
    log.read()
    log.path.write_text("1\n")
    came = log.once()
    assert came.lines == ("1",)
    assert came.begun_anew


def test_a_new_log_of_the_same_name_is_read_from_its_beginning(log: Log) -> None:
    """Unread lines of a deleted log are lost."""
    log.write("one\ntwo\n")
    log.read()
    keep = log.path.with_name("unrelated")
    log.path.rename(keep)
    log.write("1\n")
    assert log.read() == ["1"]


def test_a_long_log_is_read_in_parts(log: Log) -> None:
    """No part is larger than the limit of a read."""
    lines = [f"{number:08d} {'x' * 90}" for number in range(20_000)]
    log.write("\n".join(lines) + "\n")
    assert log.once().more
    log.position = Position()
    assert log.read() == lines


def test_an_invalid_answer_is_refused() -> None:
    """It may be a login banner."""
    with pytest.raises(ValueError, match="expected an answer"):
        log_probe.read_tail(Position(), b"Welcome to Debian\nsame 1 2\n")


@pytest.mark.parametrize("head", [b"same 5 " + b"9" * 4300, b"same 5 -7", b"new 1_0 0"])
def test_numbers_that_no_file_system_has_are_refused(head: bytes) -> None:
    """A guest may answer any number, and the monitor stores the position as JSON."""
    with pytest.raises(ValueError, match="digits"):
        log_probe.read_tail(Position(), head + b"\nstep 1 2 s\n")


def test_a_long_rotated_log_is_read_to_its_end(log: Log) -> None:
    """It may take many commands; the new log follows."""
    log.write("one\n")
    assert log.read() == ["one"]
    lines = [f"line {number} {'x' * 60}" for number in range(3 * log_probe.MAX_READ_BYTES // 70)]
    log.write("\n".join(lines) + "\n")
    log.path.rename(f"{log.path}.1")
    log.write("after\n")
    assert log.read() == [*lines, "after"]


@pytest.mark.parametrize("rotated", [False, True])
def test_a_line_longer_than_one_read_delays_no_other(log: Log, rotated: bool) -> None:
    """It is left out; later lines are read."""
    log.write("one\n")
    assert log.read() == ["one"]
    log.write("x" * (log_probe.MAX_READ_BYTES + 9) + "\ntwo\n")
    if rotated:
        log.path.rename(f"{log.path}.1")
        log.write("three\n")
    assert log.read()[1:] == (["two", "three"] if rotated else ["two"])
