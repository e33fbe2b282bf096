"""The application continues and ends, whichever process is killed during the run."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.applications.apart import Apart, apart
from tests.real.applications.application import Run, step_s
from tests.real.host import RealHost, until

IDEAL_S = 12.0
DEADLINE_S = 300.0


@pytest.fixture
def site(mortal_hosts: list[RealHost], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    """Yield a site with one host of two cores."""
    with apart(tmp_path_factory.mktemp("s"), mortal_hosts[0]) as running_site:
        yield running_site


def test_the_application_survives_every_kill(
    site: Apart, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Controller, monitor, daemon and a VM: each is replaced, and no step is missing."""
    steps = int(IDEAL_S / step_s(tmp_path_factory.mktemp("heat")))
    run = Run(site, "ann", steps, DEADLINE_S)
    part = steps // 6
    run.until_made(part)
    for role in ("controller", "monitor"):
        _killed(role)
    run.until_made(2 * part)
    site.kill_daemon()
    until(lambda: not (_process("controller") or _process("monitor")), "nobody looks after it")
    made = run.made[-1][0]
    run.until_made(made + part // 2)  # without any process that manages it
    site.start_daemon()
    until(lambda: _process("controller"), "a controller", patience_s=60.0)
    victim, other = run.vms
    site.kill_vm(victim)
    run.until(lambda: victim not in run.vms and len(run.vms) == 2, "another VM")
    assert other in run.vms
    assert run.finished() == "done", run.description()
    assert run.missed_s() < 0
    assert {step for step, _ in run.made} == set(range(1, steps + 1))


def _killed(role: str) -> None:
    """Kill a process, and wait until the daemon has started it again."""
    pid = _process(role)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until(lambda: _process(role) not in {None, pid}, f"another {role}", patience_s=60.0)


def _process(role: str) -> int | None:
    """Return the id on this machine of a controller's or monitor's process."""
    wanted = f"controllers\0{role}\0".encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes():
                return int(path.parent.name)
    return None
