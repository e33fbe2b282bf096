"""Reading on in a log, by the very shell command that VMs are asked."""

import subprocess
from pathlib import Path

import pytest

from controllers.monitors import log_probe
from controllers.monitors.log_probe import LogPart, Position


class Log:
    """A log that is read as a monitor would read it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.position = Position()

    def write(self, text: str) -> None:
        """Append."""
        with self.path.open("a") as file:
            file.write(text)

    def read(self) -> list[str]:
        """All that is new."""
        lines: list[str] = []
        while True:
            came = self.once()
            lines += came.lines
            if not came.more:
                return lines

    def once(self) -> LogPart:
        """One command's worth."""
        command = log_probe.tail_command(str(self.path), self.position)
        done = subprocess.run(["sh", "-c", command], capture_output=True, check=True)
        came = log_probe.read_tail(self.position, done.stdout)
        self.position = came.position
        return came


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """One whose name needs quoting."""
    return Log(tmp_path / "a run's $log")


def test_each_line_comes_once_and_whole(log: Log) -> None:
    """A line that is being written comes when it is done."""
    assert log.read() == []
    log.write("one\ntwo\nth")
    assert log.read() == ["one", "two"]
    assert log.read() == []
    log.write("ree\n")
    assert log.read() == ["three"]


def test_rotation_loses_nothing(log: Log) -> None:
    """What was written just before comes from the old file, then the new one's."""
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


def test_a_log_that_was_emptied_is_read_from_its_beginning(log: Log) -> None:
    """As `copytruncate` does it, or an application that is started again."""
    log.write("one\ntwo\nthree\n")
    log.read()
    log.path.write_text("1\n")
    came = log.once()
    assert came.lines == ("1",)
    assert came.begun_anew


def test_a_new_log_of_the_same_name_is_read_from_its_beginning(log: Log) -> None:
    """Where the old one is gone, what was not read of it is gone too."""
    log.write("one\ntwo\n")
    log.read()
    keep = log.path.with_name("unrelated")
    log.path.rename(keep)
    log.write("1\n")
    assert log.read() == ["1"]


def test_a_long_log_comes_in_parts(log: Log) -> None:
    """None of them larger than what may be read at once."""
    lines = [f"{number:08d} {'x' * 90}" for number in range(20_000)]
    log.write("\n".join(lines) + "\n")
    assert log.once().more
    log.position = Position()
    assert log.read() == lines


def test_what_is_no_answer_is_refused() -> None:
    """A login banner, say."""
    with pytest.raises(ValueError, match="expected an answer"):
        log_probe.read_tail(Position(), b"Welcome to Debian\nsame 1 2\n")


def test_a_rotated_log_longer_than_one_read_is_read_to_its_end(log: Log) -> None:
    """However many commands that takes; the new one follows."""
    log.write("one\n")
    assert log.read() == ["one"]
    lines = [f"line {number} {'x' * 60}" for number in range(3 * log_probe.MAX_READ_BYTES // 70)]
    log.write("\n".join(lines) + "\n")
    log.path.rename(f"{log.path}.1")
    log.write("after\n")
    assert log.read() == [*lines, "after"]


@pytest.mark.parametrize("rotated", [False, True])
def test_a_line_longer_than_one_read_holds_up_nothing(log: Log, rotated: bool) -> None:
    """It is left out; lines after it are read."""
    log.write("one\n")
    assert log.read() == ["one"]
    log.write("x" * (log_probe.MAX_READ_BYTES + 9) + "\ntwo\n")
    if rotated:
        log.path.rename(f"{log.path}.1")
        log.write("three\n")
    assert log.read()[1:] == (["two", "three"] if rotated else ["two"])
