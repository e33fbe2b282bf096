"""The administrator's commands that switch hosts off and on, with real programs."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, ensureDeferred

from merkatd.base.clock import Inline
from merkatd.hypervisor.power_commands import PowerCommands, PowerSettings
from tests.daemon.processes import until

PYTHON = sys.executable


def commands(tmp_path: Path, program: str, **changes: Any) -> PowerCommands:
    """Return commands that run this Python program with the host's name and id."""
    file = tmp_path / "switch.py"
    file.write_text(program)
    given: dict[str, Any] = {
        "hosts": frozenset({"rack7-*"}),
        "sleep": f"{PYTHON} {file} sleep {{host}} {{id}}",
        "wake": f"{PYTHON} {file} wake {{host}} {{id}}",
        **changes,
    }
    return PowerCommands(PowerSettings(**given), Inline())


def result(running: Any) -> str:
    """Return the result of a switch that has ended."""
    done: list[str] = []
    ensureDeferred(running).addCallback(done.append)
    return done[0]


class Held:
    """An executor whose threads are all busy, until a test lets them go on."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], Any]] = []

    def run(self, call: Callable[[], Any]) -> Deferred[Any]:
        """Keep the call; its result comes never."""
        self.calls.append(call)
        return Deferred()


def test_a_command_that_waits_for_a_thread_ends_with_its_step(tmp_path: Path) -> None:
    """Another daemon acts by then: the host may have been woken."""
    got = tmp_path / "got"
    held = Held()
    switch = commands(tmp_path, f"open({str(got)!r}, 'w')")
    switch = PowerCommands(switch.settings, held)
    running = ensureDeferred(switch.sleep(1, "rack7-1"))
    ended: list[Any] = []
    running.addErrback(ended.append)
    running.cancel()
    assert ended[0].check(CancelledError)
    held.calls[0]()
    assert not got.exists()


def test_a_running_command_ends_with_its_step(tmp_path: Path) -> None:
    """It is killed, like one that takes too long."""
    begun, running = tmp_path / "begun", list[Any]()
    program = f"import time\nopen({str(begun)!r}, 'w')\ntime.sleep(60)"
    held = Held()
    switch = PowerCommands(commands(tmp_path, program).settings, held)
    step = ensureDeferred(switch.sleep(1, "rack7-1"))
    step.addErrback(running.append)
    thread = threading.Thread(target=held.calls[0])
    thread.start()
    until(begun.exists, "the command runs")
    step.cancel()
    thread.join(50)
    assert not thread.is_alive()


def test_a_command_gets_the_host(tmp_path: Path) -> None:
    """Its name and its id, each as a part of its own."""
    got = tmp_path / "got"
    program = f"import sys, pathlib\npathlib.Path({str(got)!r}).write_text(str(sys.argv[1:]))"
    switch = commands(tmp_path, program)
    assert result(switch.sleep(17, "rack7-3")) == ""
    assert got.read_text() == "['sleep', 'rack7-3', '17']"
    assert result(switch.wake(17, "rack7-3")) == ""
    assert got.read_text() == "['wake', 'rack7-3', '17']"


@pytest.mark.parametrize(
    "name", ["rack8-1", "rack7-1; reboot", "rack7-$(id)", "rack7- x", "-rack7-1", "rack7-\n", ""]
)
def test_other_hosts_are_never_switched(tmp_path: Path, name: str) -> None:
    """Also those whose names could be taken for more than a name."""
    switch = commands(tmp_path, "raise SystemExit(9)", hosts=frozenset({"rack7-*", "-*"}))
    assert not switch.serves(name)
    assert result(switch.sleep(1, name)) == f"no command switches host {name}"


def test_a_failed_command_says_why(tmp_path: Path) -> None:
    """By its output in a line, or else by its exit code."""
    said = "import sys\nprint('no route\\n to host', file=sys.stderr)\nsys.exit(3)"
    assert result(commands(tmp_path, said).sleep(1, "rack7-1")) == f"{PYTHON}: no route to host"
    quiet = "raise SystemExit(3)"
    assert result(commands(tmp_path, quiet).wake(1, "rack7-1")) == f"{PYTHON}: exit code 3"
    missing = commands(tmp_path, "", sleep="/no/such/program {host}")
    assert "No such file" in result(missing.sleep(1, "rack7-1"))


def test_a_command_that_hangs_is_killed(tmp_path: Path) -> None:
    """After its time limit, with its children."""
    program = "import subprocess\nsubprocess.run(['sleep', '60'])"
    switch = commands(tmp_path, program, limit_s=0.5)
    begun = time.monotonic()
    assert result(switch.sleep(1, "rack7-1")) == f"{PYTHON} did not end within 0.5 s"
    assert time.monotonic() - begun < 20


def test_a_talkative_command_ends(tmp_path: Path) -> None:
    """Only the beginning of its output is kept."""
    program = "import sys\nfor _ in range(100_000): print('x' * 100)\nsys.exit(1)"
    why = result(commands(tmp_path, program).sleep(1, "rack7-1"))
    assert 1_000 < len(why) < 2_200


def test_a_child_that_goes_on_holds_no_command(tmp_path: Path) -> None:
    """A program in the background keeps the output open; the command itself has ended."""
    program = """
import subprocess, sys
subprocess.Popen(["sleep", "45"], start_new_session=True)
print("chassis is busy", flush=True)
sys.exit(int(sys.argv[1] == "wake"))
"""
    switch = commands(tmp_path, program, limit_s=40.0)
    begun = time.monotonic()
    assert result(switch.sleep(1, "rack7-1")) == ""
    assert result(switch.wake(1, "rack7-1")) == f"{PYTHON}: chassis is busy"
    assert time.monotonic() - begun < 40


def test_a_child_outside_the_group_holds_no_thread(tmp_path: Path) -> None:
    """The command hangs beside a child of another session, which is not killed."""
    program = """
import subprocess, time
subprocess.Popen(["sleep", "45"], start_new_session=True)
time.sleep(60)
"""
    begun = time.monotonic()
    switch = commands(tmp_path, program, limit_s=0.5)
    assert result(switch.sleep(1, "rack7-1")) == f"{PYTHON} did not end within 0.5 s"
    assert time.monotonic() - begun < 40


def test_a_command_that_may_not_be_killed_holds_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs as another user, by sudo."""
    groups = []

    def refuse(group: int, _signal: int) -> None:
        groups.append(group)
        raise PermissionError("not permitted")

    real = os.killpg
    monkeypatch.setattr(os, "killpg", refuse)
    switch = commands(tmp_path, "import time\ntime.sleep(45)", limit_s=0.5)
    begun = time.monotonic()
    try:
        assert result(switch.sleep(1, "rack7-1")) == f"{PYTHON} did not end within 0.5 s"
        assert time.monotonic() - begun < 40
    finally:
        for group in groups:
            real(group, signal.SIGKILL)


def test_a_command_that_is_killed_by_others_says_so(tmp_path: Path) -> None:
    """Not that its time was over: the kernel may have needed memory."""
    program = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    assert result(commands(tmp_path, program).sleep(1, "rack7-1")) == f"{PYTHON}: exit code -9"


def test_endless_output_is_no_way_past_the_limit(tmp_path: Path) -> None:
    """The command is killed while it still writes."""
    program = "while True: print('x' * 4096)"
    switch = commands(tmp_path, program, limit_s=1.0)
    assert result(switch.sleep(1, "rack7-1")) == f"{PYTHON} did not end within 1 s"


def test_a_command_with_a_null_character_fails_alone(tmp_path: Path) -> None:
    """The error is the step's, and no failure of the daemon."""
    switch = commands(tmp_path, "", sleep="/bin/true \0 {host}")
    assert "null" in result(switch.sleep(1, "rack7-1"))
