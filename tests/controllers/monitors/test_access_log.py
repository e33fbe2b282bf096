"""Reading nginx's access logs with the shell command that runs on VMs, and hostile logs."""

import json
import math
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.monitors.log_probe import Position
from controllers.monitors.traffic.access_log import (
    MOST_BYTES,
    AccessLogs,
    bytes_of_each,
    read_log,
    traffic_of,
)
from controllers.monitors.traffic.request_window import Traffic


def line(seconds: str = "0.250", status: int = 200, agent: str = "curl/8") -> str:
    """Return a line as nginx writes it in the documented format."""
    return (
        '203.0.113.7 - - [27/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1"'
        f' {status} 512 "-" "{agent}" rt={seconds}\n'
    )


class Log:
    """A log that is read as a monitor reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs = AccessLogs(str(path))
        self.rounds = 0

    def write(self, text: str) -> None:
        """Append text."""
        with self.path.open("a") as file:
            file.write(text)

    def look(self) -> Traffic | None:
        """Return the traffic since the last look; None for a first look."""
        self.logs.begin([1])
        for self.rounds in (1, 2, 3):
            command = self.logs.command(1)
            done = subprocess.run(["sh", "-c", command], capture_output=True, check=True)
            assert len(done.stdout) <= MOST_BYTES + 100
            if not self.logs.take(1, done.stdout):
                return self.logs.traffic().get(1)
        raise AssertionError("a look ends")


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Return a log whose name needs quoting, after its first look."""
    log = Log(tmp_path / "a proxy's $log")
    log.write(line("9.000") * 50)
    assert log.look() is None
    return log


def test_each_request_counts_once(log: Log) -> None:
    """Lines from before the first look do not, and an incomplete line counts when it ends."""
    log.write(line("0.100") + line("0.300") + line("0.500", status=502) + line("0.200")[:40])
    seen = log.look()
    assert seen is not None
    assert (seen.arrived, seen.answered, seen.failed, seen.unread) == (3.0, 3.0, 1.0, 0.0)
    assert seen.times.mean_s == pytest.approx(0.2)
    log.write(line("0.200")[40:])
    seen = log.look()
    assert seen is not None
    assert (seen.answered, seen.times.mean_s) == (1.0, 0.2)
    seen = log.look()
    assert seen is not None
    assert seen.answered == 0.0


@pytest.mark.parametrize("name", [".1", "-20261127"])
def test_rotation_loses_no_request(log: Log, name: str) -> None:
    """The last lines come from the old file, then those of the new one, in one look."""
    log.write(line() * 3)
    log.path.rename(f"{log.path}{name}")
    log.write(line() * 4)
    seen = log.look()
    assert seen is not None
    assert (seen.answered, log.rounds) == (7.0, 2)
    log.write(line() * 2)
    seen = log.look()
    assert seen is not None
    assert (seen.answered, log.rounds) == (2.0, 1)


def test_a_rotated_log_without_a_new_one_is_read_on(log: Log) -> None:
    """Nginx writes to the old file until it opens the new one."""
    log.path.rename(f"{log.path}.1")
    log.path = Path(f"{log.path}.1")
    for count in (3, 2):
        log.write(line() * count)
        seen = log.look()
        assert seen is not None
        assert seen.answered == count


def test_an_emptied_log_is_read_from_its_beginning(log: Log) -> None:
    """`copytruncate` empties it."""
    log.path.write_text(line() * 5)
    seen = log.look()
    assert seen is not None
    assert seen.answered == 5.0


def test_a_missing_log_is_unknown(log: Log) -> None:
    """No requests would mean an idle proxy."""
    log.path.unlink()
    with pytest.raises(ValueError, match="the log is missing"):
        log.look()
    log.write(line())
    assert log.look() is None
    log.write(line())
    seen = log.look()
    assert seen is not None
    assert seen.answered == 1.0


def test_a_long_log_is_sampled(log: Log) -> None:
    """The newest lines stand for those that were skipped."""
    written = 12_000
    log.write(line("9.000") * (written // 2) + line("0.250") * (written // 2))
    assert log.path.stat().st_size > 2 * MOST_BYTES
    seen = log.look()
    assert seen is not None
    assert seen.answered == pytest.approx(written, rel=1e-3)
    assert seen.times.percentile_s(0.5) == pytest.approx(0.25, rel=0.005)
    log.write(line() * 5)
    seen = log.look()
    assert seen is not None
    assert seen.answered == 5.0


def test_a_line_of_a_gigabyte_takes_no_time(log: Log) -> None:
    """It is skipped, and later lines are read."""
    with log.path.open("ab") as file:
        file.truncate(1 << 30)
    began_s = time.monotonic()
    seen = log.look()
    assert seen is not None
    assert seen.answered == 0.0
    log.write("\n" + line() * 2)
    seen = log.look()
    assert seen is not None
    assert (seen.answered, seen.unread) == (2.0, 1.0)
    assert time.monotonic() - began_s < 10.0


@pytest.mark.parametrize(
    "text",
    [
        line("-0.250"),
        line("1e308"),
        line("1" * 400),
        line("9999999.000"),
        line("nan"),
        line("inf"),
        line(""),
        line("0.1 0.2"),
        line("\u0660.\u0661"),
        "\0" * 3000 + "\n",
        "\n",
        '"" 200 1 rt=0.1\n',
        "GET / rt=0.100\n",
        line().replace(" rt=", " "),
        '1.2.3.4 - - [x] "GET / HTTP/1.1" 200 512 "-" "curl"\n',
        "x" * 70_000 + line(),
    ],
)
def test_other_lines_are_counted_as_unread(log: Log, text: str) -> None:
    """They may be in another format, or come from a hostile VM."""
    log.write(line() + text + line())
    seen = log.look()
    assert seen is not None
    assert (seen.answered, seen.unread) == (2.0, 1.0)
    assert seen.times.mean_s == 0.25


def test_a_client_can_not_forge_a_time(log: Log) -> None:
    """Nginx escapes quotation marks, and writes the time after all that clients send."""
    log.write(line("0.250", agent=r"\x22 500 1 \x22\x22 rt=99.000"))
    log.write(line("0.250", agent="x rt=99.000"))
    seen = log.look()
    assert seen is not None
    assert (seen.answered, seen.failed, seen.times.mean_s) == (2.0, 0.0, 0.25)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"Welcome to Debian\n",
        b"same 5 0\n",
        b"same 5 -7 9\n",
        b"same 5 10 9\n",
        b"same 5 0 10\n",
        b"same 5 100 101\nxx",
        b"same " + b"9" * 4300 + b" 100 100\n",
        b"same 5 100 9000000\n" + b"x" * (MOST_BYTES + 1),
        b"same 1_0 100 100\n",
    ],
)
def test_an_invalid_answer_is_refused(answer: bytes) -> None:
    """A VM may answer anything."""
    with pytest.raises(ValueError, match="expected"):
        read_log(Position(inode=5, offset=100), answer, MOST_BYTES)


@given(st.binary(max_size=200), st.integers(0, 10**20 - 1), st.integers(0, 10**20 - 1))
def test_any_answer_gives_finite_numbers(data: bytes, begin: int, end: int) -> None:
    """Or it is refused; the next position can be stored and sent."""
    logs = AccessLogs("/log")
    logs.begin([1])
    assert not logs.take(1, b"first 5 7 7\n")
    head = f"same 5 {begin} {end}\n".encode()
    try:
        logs.take(1, head + data + line().encode() * 2)
    except ValueError:
        assert logs.traffic() == {}
        return
    seen = logs.traffic()[1]
    assert math.isfinite(seen.answered)
    assert math.isfinite(seen.unread)
    json.dumps(seen.times.mean_s if seen.times.count else 0.0, allow_nan=False)


@given(st.lists(st.binary(max_size=300), max_size=20))
def test_any_line_counts_or_does_not(lines: list[bytes]) -> None:
    """No line is an error."""
    seen = traffic_of((text, 1.0) for text in lines)
    assert seen.answered + seen.unread == len(lines)


def test_lines_of_a_hostile_vm_take_bounded_time() -> None:
    """So many short lines fit into a look, and so many quotation marks into a line."""
    for text in (b"\n" * MOST_BYTES, b'"' * 60_000 + b" rt=0.1\n", b" rt=0." * 10_000 + b"\n"):
        began_s = time.thread_time()
        traffic_of((row, 1.0) for row in text.split(b"\n"))
        assert time.thread_time() - began_s < 2.0


def test_many_vms_share_a_limit() -> None:
    """A look at a thousand VMs reads no more than a few megabytes."""
    assert bytes_of_each(1) == MOST_BYTES
    assert bytes_of_each(0) == MOST_BYTES
    assert 1000 * bytes_of_each(1000) <= 1 << 23
