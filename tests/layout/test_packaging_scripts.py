"""The script that keeps services off during an installation leaves nothing behind."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "packaging" / "without_services.sh"


def started(policy: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start the script with a command and a policy file of its own.

    A shell can't trap a signal that its parent ignores, as `nohup` does.
    """
    environment = os.environ | {"POLICY": str(policy)}
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        return subprocess.Popen(["sh", str(SCRIPT), *words], env=environment)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_services_stay_off_while_the_command_runs(tmp_path: Path) -> None:
    """Debian's `invoke-rc.d` asks the policy, and 101 means: not allowed."""
    policy = tmp_path / "policy-rc.d"
    assert started(policy, "sh", "-c", f'{policy}; test "$?" = 101').wait(60) == 0
    assert not policy.exists()


def test_a_failed_installation_is_reported_and_leaves_no_policy(tmp_path: Path) -> None:
    """The caller sees the command's exit code."""
    policy = tmp_path / "policy-rc.d"
    assert started(policy, "sh", "-c", "exit 7").wait(60) == 7
    assert not policy.exists()


@pytest.mark.parametrize("cut", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_installation_that_is_cut_off_leaves_no_policy(tmp_path: Path, cut: int) -> None:
    """Otherwise no package could ever start its service on this machine again."""
    policy, begun, goes_on = (tmp_path / name for name in ("policy-rc.d", "begun", "goes-on"))
    goes_on.touch()
    waits = f"touch {begun}; while test -e {goes_on}; do sleep 0.05; done"
    script = started(policy, "sh", "-c", waits)
    while not begun.exists():
        assert script.poll() is None
        time.sleep(0.02)
    script.send_signal(cut)
    stays = policy.exists()
    goes_on.unlink()
    assert script.wait(60) == 128 + cut
    assert stays, "the command still ran"
    assert not policy.exists()


def test_a_policy_of_the_machine_stays(tmp_path: Path) -> None:
    """An administrator wrote it."""
    policy = tmp_path / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    assert started(policy, "true").wait(60) == 0
    assert policy.read_text() == "#!/bin/sh\nexit 101\n"
