"""Experiments need packages that the daemon does not."""

import subprocess
import sys
from pathlib import Path

WITHOUT_SCIPY = """
import sys
sys.modules["scipy"] = None
from merkatd.cli import main
sys.exit(main(sys.argv[1:]))
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command without scipy."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_SCIPY, *words], capture_output=True, text=True, check=False
    )


def test_the_missing_package_is_named() -> None:
    """The error says how to install it and has no traceback."""
    done = run("experiment", "list")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("merkatd: `merkatd experiment` needs the Python package scipy")
    assert done.stderr.rstrip().endswith("pip install 'merkat[simulator]'")


def test_the_strategy_groups_needs_no_scipy(tmp_path: Path) -> None:
    """The assignment of groups to hosts is Merkat's own code."""
    file = tmp_path / "cloud.json"
    file.write_text((Path(__file__).parents[2] / "docs/example.json").read_text())
    done = run("plan", "--snapshot", str(file), "--strategy", "groups")
    assert done.returncode == 0, done.stderr
