"""Traces: valid lines, and errors of invalid ones."""

import gzip
from pathlib import Path

import pytest

from simulator.workloads import SwfError, read_swf

GOOD = "11 342072 32 43306 32 43307 -1 40 43200 512 1 4 1 -1 -1 1 -1 -1\n"


def test_a_line_is_read(tmp_path: Path) -> None:
    """Requested processors and memory take precedence over used ones."""
    path = tmp_path / "trace.swf"
    path.write_text(f"; MaxProcs: 240\n\n{GOOD}")
    (job,) = read_swf(path)
    assert job == (11, 342072.0, 43306.0, 40, 43200.0, 512.0, 4)


def test_missing_requests_are_replaced_by_the_use(tmp_path: Path) -> None:
    """This holds where the use is known."""
    path = tmp_path / "trace.swf"
    path.write_text("1 0 -1 10 8 -1 64 -1 -1 -1 1 2 1 -1 -1 1 -1 -1\n")
    (job,) = read_swf(path)
    assert (job.procs, job.memory_kib, job.requested_s) == (8, 64.0, -1.0)


def test_jobs_that_never_ran_are_left_out_and_the_rest_sorted(tmp_path: Path) -> None:
    """Compressed traces work too, and the number of jobs can be limited."""
    path = tmp_path / "trace.swf.gz"
    lines = [
        GOOD,
        "12 100 -1 5 4 -1 -1 4 -1 -1 1 1 1 -1 -1 1 -1 -1\n",
        "13 50 -1 -1 4 -1 -1 4 -1 -1 0 1 1 -1 -1 1 -1 -1\n",
        "14 60 -1 7 4 -1 -1 4 -1 -1 1 1 1 -1 -1 1 -1 -1\n",
    ]
    with gzip.open(path, "wt") as trace:
        trace.writelines(lines)
    assert [job.number for job in read_swf(path)] == [14, 12, 11]
    assert [job.number for job in read_swf(path, most=2)] == [12, 11]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 2 3\n", "a job must have 18 numbers (got 3 fields)"),
        (GOOD.replace("43306", "soon"), "fields must be numbers (got 'soon')"),
        (GOOD.replace("342072", "-7"), "the submission time must be at least 0 (got -7)"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    """The error has the number of the line."""
    path = tmp_path / "trace.swf"
    path.write_text(GOOD + line)
    with pytest.raises(SwfError, match=r"trace\.swf:2: ") as raised:
        read_swf(path)
    assert message in str(raised.value)


def test_a_missing_or_truncated_file_is_an_error(tmp_path: Path) -> None:
    """The error names the file."""
    with pytest.raises(SwfError, match="No such file"):
        read_swf(tmp_path / "nothing.swf")
    broken = tmp_path / "broken.swf.gz"
    broken.write_bytes(gzip.compress(GOOD.encode() * 100)[:40])
    with pytest.raises(SwfError, match="broken"):
        read_swf(broken)
