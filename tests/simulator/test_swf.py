"""Traces: what is read, and what is said of lines that are wrong."""

import gzip
from pathlib import Path

import pytest

from simulator.workloads import SwfError, read_swf

GOOD = "11 342072 32 43306 32 43307 -1 40 43200 512 1 4 1 -1 -1 1 -1 -1\n"


def test_a_line(tmp_path: Path) -> None:
    """Requested processors count before used ones, and memory likewise."""
    path = tmp_path / "trace.swf"
    path.write_text(f"; MaxProcs: 240\n\n{GOOD}")
    (job,) = read_swf(path)
    assert job == (11, 342072.0, 43306.0, 40, 43200.0, 512.0, 4)


def test_what_is_not_requested_was_used(tmp_path: Path) -> None:
    """Where it is known at all."""
    path = tmp_path / "trace.swf"
    path.write_text("1 0 -1 10 8 -1 64 -1 -1 -1 1 2 1 -1 -1 1 -1 -1\n")
    (job,) = read_swf(path)
    assert (job.procs, job.memory_kib, job.requested_s) == (8, 64.0, -1.0)


def test_jobs_that_never_ran_are_left_out_and_order_is_by_submission(tmp_path: Path) -> None:
    """Also from a compressed trace, and only as many as are wanted."""
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
    ("line", "said"),
    [
        ("1 2 3\n", "a job must have 18 numbers (got 3 fields)"),
        (GOOD.replace("43306", "soon"), "fields must be numbers (got 'soon')"),
        (GOOD.replace("342072", "-7"), "the submission time must be at least 0 (got -7)"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    """By its number."""
    path = tmp_path / "trace.swf"
    path.write_text(GOOD + line)
    with pytest.raises(SwfError, match=r"trace\.swf:2: ") as raised:
        read_swf(path)
    assert said in str(raised.value)


def test_a_file_that_is_not_there_or_no_trace(tmp_path: Path) -> None:
    """Or one that breaks off."""
    with pytest.raises(SwfError, match="No such file"):
        read_swf(tmp_path / "nothing.swf")
    broken = tmp_path / "broken.swf.gz"
    broken.write_bytes(gzip.compress(GOOD.encode() * 100)[:40])
    with pytest.raises(SwfError, match="broken"):
        read_swf(broken)
