"""Daemons whose web pages the tests open: the demo with its tenants, and a thousand hosts."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.web.browser import Browser

_PATIENCE_S = 300.0
_ADDRESSES = re.compile(r"web page: (?P<address>\S+) as (?P<user>[^,]+), (?P<password>\S+)")
_DEMO = ("demo", "--plain", "--seconds", "1200", "--speed", "24", "--seed", "1")
_OWNER = "ana:demo"
_PLATFORM = '''name = "weather"
[controller]
kind = "deadline"
parameters = { steps = 400 }
[budget]
credits = 5000
[slo]
deadline = "3h"
ideal_run = "40m"
[[cluster]]
name = "ranks"
least = 2
initial = 2
template = """
CPU = "1"
VCPU = "1"
MEMORY = "512"
EMBEDDED = [ WORK = "7200", ITERATIONS = "400" ]
"""
[cluster.monitor]
kind = "steps"
parameters = { log = "/var/log/run.log" }
'''
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
    """A web page and the logins for it."""

    address: str
    admin: str
    vm: int = -1
    """A VM of the platform; VM, tenant and platform are ana's."""
    tenant: int = -1
    platform: int = -1


@contextmanager
def demo(folder: Path, period: int) -> Iterator[Shown]:
    """Yield the page of a demo, once this period is over; the demo prints its address itself.

    Tenant ana has a platform whose controller has reported.
    """
    log = folder / "demo.log"
    with _program(log, *_DEMO) as program:
        addresses = _until_logged(program, log, _ADDRESSES)
        address, admin = addresses["address"], f"{addresses['user']}:{addresses['password']}"
        _until_logged(program, log, re.compile(rf"period {max(period - 12, 3)}:"))
        ana = Browser(address)
        ana.sign_in(_OWNER)
        place = ana.post("/platforms/submit", template=_PLATFORM).place
        _until_logged(program, log, re.compile(rf"period {period}:"))
        _until(lambda: "iterations" in ana.get(place).text, "a report of the platform")
        vms = [vm for host in ana.get("/").hosts for vm in host["vms"]]
        vm, _, tenant, *_ = next(vm for vm in vms if vm[1].startswith("weather-"))
        yield Shown(address, admin, vm, tenant, int(place.removeprefix("/platforms/")))


@contextmanager
def thousand_hosts(folder: Path) -> Iterator[Shown]:
    """Yield the page of a daemon with a thousand hosts."""
    config, log, state = folder / "merkatd.toml", folder / "log", folder / "state"
    config.write_text(_MANY.format(folder=folder))
    with _program(log, "run", "--config", str(config)) as program:
        _until_logged(program, log, re.compile(r"Period 1:"))
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


def _until_logged(
    program: subprocess.Popen[bytes], log: Path, what: re.Pattern[str]
) -> re.Match[str]:
    def match_in_log() -> re.Match[str] | None:
        assert program.poll() is None, log.read_text()
        return what.search(log.read_text())

    match: re.Match[str] = _until(match_in_log, what.pattern)
    return match


def _until(met: Callable[[], Any], what: str) -> Any:
    ending = time.monotonic() + _PATIENCE_S
    while not (answer := met()):
        assert time.monotonic() < ending, f"{what}: not within {_PATIENCE_S:g} s"
        time.sleep(0.2)
    return answer
