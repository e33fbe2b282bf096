"""The signs of an application, read with the shell command that runs on VMs."""

import subprocess
from math import isfinite
from pathlib import Path

import pytest

from controllers.monitors import log_probe
from controllers.monitors.log_probe import VmSigns


def seen(status: str) -> VmSigns:
    """Return the signs of this machine."""
    done = subprocess.run(
        ["sh", "-c", log_probe.signs_command(status)], capture_output=True, check=True
    )
    assert done.stdout.count(b"\n") == 1
    return log_probe.read_signs(done.stdout)


@pytest.mark.parametrize(
    ("text", "code"), [("0\n", 0), ("3", 3), ("-15 killed\n", -15), ("", None), ("bad\n", None)]
)
def test_an_exit_code_is_read_from_a_file(tmp_path: Path, text: str, code: int | None) -> None:
    """More text may follow; an invalid number counts as none."""
    file = tmp_path / "a run's $status"
    file.write_text(text)
    signs = seen(str(file))
    assert signs.exit == code
    assert signs.load is not None
    assert signs.load >= 0.0


def test_without_a_file_the_application_has_not_ended(tmp_path: Path) -> None:
    """The same holds if the template names no file."""
    assert seen(str(tmp_path / "none")).exit is None
    assert seen("").exit is None


def test_a_meaningless_line_is_skipped() -> None:
    """It may be a login banner, or the answer of a VM without a load."""
    assert log_probe.read_signs(b"Welcome to Debian: 12 updates\n") == VmSigns()
    assert log_probe.read_signs(b":7\n") == VmSigns(None, 7)


@pytest.mark.parametrize("load", [b"nan", b"inf", b"-inf", b"9" * 400])
@pytest.mark.parametrize("code", [b"9" * 400, b"-" + b"9" * 5_000, b"7"])
def test_any_number_is_read_or_skipped(load: bytes, code: bytes) -> None:
    """Values are finite, and an invalid code counts as a failure."""
    values = log_probe.sign_values({1: log_probe.read_signs(load + b":" + code)}, {1})
    assert all(isfinite(value) for value in values.values())
    assert values["exit"] == (7.0 if code == b"7" else 255.0)


def test_one_failed_vm_fails_the_application() -> None:
    """The load is the mean of the VMs that report one."""
    there = {1: VmSigns(1.0, 0), 2: VmSigns(2.0, None), 3: VmSigns(None, -9)}
    assert log_probe.sign_values(there, {1, 2, 3}) == {"answering": 3.0, "load": 1.5, "exit": -9.0}
    assert log_probe.sign_values({}, set()) == {}


@pytest.mark.parametrize(
    ("codes", "logs", "ended"),
    [
        ({1: 0, 2: 0}, {1, 2}, True),
        ({1: 0, 2: None}, {1}, True),
        ({1: 0, 2: None}, set(), True),
        ({1: 0, 2: None}, {1, 2}, False),
        ({1: 0}, {1, 2}, False),
        ({1: None}, {1}, False),
    ],
)
def test_an_application_succeeds_once_all_vms_with_a_log_have(
    codes: dict[int, int | None], logs: set[int], ended: bool
) -> None:
    """A VM without a log helps another; a silent one may continue."""
    there = {vm: VmSigns(None, code) for vm, code in codes.items()}
    values = log_probe.sign_values(there, logs)
    assert values.get("exit") == (0.0 if ended else None)
    assert {vm for vm in codes if f"ended/{vm}" in values} == {
        vm for vm in logs if codes.get(vm) == 0
    }
