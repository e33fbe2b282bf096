"""The Standard Workload Format, version 2: a job per line, eighteen numbers, -1 for unknown."""

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

FIELDS = 18


class SwfError(Exception):
    """Raised for an unreadable trace; the message names file, line and accepted values."""


class SwfJob(NamedTuple):
    """The fields of a line that simulations use."""

    number: int
    submit_s: float
    run_s: float
    procs: int
    """Requested processors; used processors if unknown."""
    requested_s: float
    """The user's estimate of the run time; -1 if unknown."""
    memory_kib: float
    """Memory per processor, requested, or else used; -1 if unknown."""
    user: int


def read_swf(path: Path, most: int | None = None) -> list[SwfJob]:
    """Return the jobs of a trace (plain or .gz) that ran, by submission; only the first `most`.

    Raise SwfError for an unreadable trace.
    """
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            return sorted(_some(parse_swf(lines, str(path)), most), key=lambda job: job.submit_s)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise SwfError(f"{path}: {error}") from None


def _some(jobs: Iterable[SwfJob], most: int | None) -> Iterator[SwfJob]:
    for count, job in enumerate(jobs):
        if count == most:
            return
        yield job


def parse_swf(lines: Iterable[str], name: str) -> Iterator[SwfJob]:
    """Yield the jobs that ran: jobs without a run time or processors were never started."""
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith(";"):
            continue
        job = _job(text.split(), f"{name}:{number}")
        if job.run_s > 0 and job.procs > 0:
            yield job


def _job(words: list[str], where: str) -> SwfJob:
    if len(words) != FIELDS:
        raise SwfError(f"{where}: a job must have {FIELDS} numbers (got {len(words)} fields)")
    try:
        values = [float(word) for word in words]
    except ValueError:
        bad = next(word for word in words if not _number(word))
        raise SwfError(f"{where}: fields must be numbers (got {bad!r})") from None
    if values[1] < 0:
        raise SwfError(f"{where}: the submission time must be at least 0 (got {words[1]})")
    used, requested = int(values[4]), int(values[7])
    return SwfJob(
        number=int(values[0]),
        submit_s=values[1],
        run_s=values[3],
        procs=requested if requested > 0 else used,
        requested_s=values[8],
        memory_kib=values[9] if values[9] > 0 else values[6],
        user=int(values[11]),
    )


def _number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
