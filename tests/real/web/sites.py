"""Daemons with a page worth looking at: the demo with its tenants, and a thousand hosts."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PATIENCE_S = 300.0
_SAID = re.compile(r"web page: (?P<address>\S+) as (?P<user>[^,]+), (?P<password>\S+)")
_DEMO = ("demo", "--plain", "--seconds", "1200", "--speed", "12")
_MANY = """
[daemon]
state_directory = "{folder}/state"
[period]
interval = "60s"
[cloud]
hosts = 1000
"""


@dataclass(frozen=True)
class Shown:
    """A page, and who may sign in to it."""

    address: str
    admin: str


@contextmanager
def demo(folder: Path, period: int) -> Iterator[Shown]:
    """The page of a demo, whose address it prints itself, from this period on."""
    log = folder / "demo.log"
    with _program(log, *_DEMO) as program:
        said = _until_said(program, log, _SAID)
        _until_said(program, log, re.compile(rf"period {period}:"))
        yield Shown(said["address"], f"{said['user']}:{said['password']}")


@contextmanager
def thousand_hosts(folder: Path) -> Iterator[Shown]:
    """The page of a daemon with so many."""
    config, log, state = folder / "merkatd.toml", folder / "log", folder / "state"
    config.write_text(_MANY.format(folder=folder))
    with _program(log, "run", "--config", str(config)) as program:
        _until_said(program, log, re.compile(r"Period 1:"))
        address = (state / "merkat_web").read_text().strip()
        yield Shown(address, (state / "one_auth").read_text().strip())


@contextmanager
def _program(log: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        program = subprocess.Popen(
            [sys.executable, "-m", "merkatd.cli", *words], stdout=output, stderr=output
        )
    try:
        yield program
    finally:
        program.terminate()
        try:
            program.wait(60)
        finally:
            program.kill()
            program.wait()


def _until_said(
    program: subprocess.Popen[bytes], log: Path, what: re.Pattern[str]
) -> re.Match[str]:
    ending = time.monotonic() + _PATIENCE_S
    while (found := what.search(log.read_text())) is None:
        assert program.poll() is None, log.read_text()
        assert time.monotonic() < ending, f"{what.pattern}: not within {_PATIENCE_S:g} s"
        time.sleep(0.2)
    return found
