"""Tests in several processes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

CONFTEST = """
from tests import forks

def pytest_runtestloop(session):
    forks.run_units(session, forks.units_by(str, session.items), 2)
    return True
"""

PASSING = """
import pytest

@pytest.mark.parametrize("number", range(5))
def test_number(number, tmp_path):
    print("one of many")
    (tmp_path / "file").write_text("")
"""

FAILING = """
import time

def test_before(): pass
def test_fails():
    print("before the failure")
    time.sleep(0.5)
    assert "left" == "right"
def test_after(): pass
"""

SLOW = """
import time

def test_waits(): time.sleep(0.1)
"""

CRASHING = """
import os

def test_before(): pass
def test_crashes(): os._exit(3)
def test_after(): pass
"""


def run_pytest(folder: Path, *options: str, **files: str) -> tuple[int, str]:
    """Run these files in two processes; return the exit code and the output."""
    (folder / "conftest.py").write_text(CONFTEST)
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    environment = {"PYTHONPATH": str(ROOT), "PATH": ""}
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_each_test_runs_once_and_a_failure_is_printed(tmp_path: Path) -> None:
    """The summary counts all tests; the report of a failure contains its values and output."""
    code, output = run_pytest(tmp_path, "-q", a=PASSING, b=FAILING, c=PASSING, d=PASSING)
    assert (code, "1 failed, 17 passed" in output) == (pytest.ExitCode.TESTS_FAILED, True), output
    assert re.search(r"^[.F]{18} +\[100%\]$", output, re.MULTILINE)
    assert "'left' == 'right'" in output
    assert "Captured stdout call" in output


def test_the_tests_of_a_process_that_ended_fail(tmp_path: Path) -> None:
    """The test that ended it fails, and so do the ones of its unit that it never began."""
    code, output = run_pytest(tmp_path, a=CRASHING, b=PASSING)
    assert (code, "2 failed, 6 passed" in output) == (pytest.ExitCode.TESTS_FAILED, True), output
    assert "test_a.py::test_crashes: its process ended during this test" in output
    assert "test_a.py::test_after: its process ended before it" in output


def test_one_failure_ends_all_processes_if_so_asked(tmp_path: Path) -> None:
    """With `-x`, no process begins another unit."""
    units = {f"z{number}": SLOW for number in range(30)}
    code, output = run_pytest(tmp_path, "-x", a=FAILING, **units)
    assert code == pytest.ExitCode.TESTS_FAILED, output
    assert "stopping after 1 failures" in output
    assert "Traceback" not in output
    passed = re.search(r"1 failed, (\d+) passed", output)
    assert passed
    assert int(passed[1]) < 30
