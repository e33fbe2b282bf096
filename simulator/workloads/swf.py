"""The Standard Workload Format, version 2: one job a line, eighteen numbers, -1 for unknown."""

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

FIELDS = 18


class SwfError(Exception):
    """A trace that can't be read; the message names file, line and what would be right."""


class SwfJob(NamedTuple):
    """What simulations use of a line."""

    number: int
    submit_s: float
    run_s: float
    procs: int
    """Those requested, or those used where that is not known."""
    requested_s: float
    """The user's estimate of the run time, -1 where there is none."""
    memory_kib: float
    """Requested for each processor, or used; -1 where neither is known."""
    user: int


def read_swf(path: Path, most: int | None = None) -> list[SwfJob]:
    """The jobs of a trace (plain or .gz) that ran, by submission; of its first lines only `most`.

    Raises SwfError.
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
    """The jobs that ran: those without a run time or processors were never started."""
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith(";"):
            continue
        job = _job(text.split(), f"{name}:{number}")
        if job.run_s > 0 and job.procs > 0:
            yield job


def _job(words: list[str], where: str) -> SwfJob:
    if len(words) != FIELDS:
        raise SwfError(f"{where}: {len(words)} fields; {FIELDS} numbers are right")
    try:
        values = [float(word) for word in words]
    except ValueError:
        bad = next(word for word in words if not _number(word))
        raise SwfError(f"{where}: {bad!r}; a number is right") from None
    if values[1] < 0:
        raise SwfError(f"{where}: submitted at {words[1]}; a time from 0 on is right")
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
