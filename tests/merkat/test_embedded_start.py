"""docs/merkat.md: a reader without an OpenNebula starts a daemon and asks it, as the page says."""

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.daemon.processes import until
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "merkat.md"
STATE = Path(".local/state/merkat")


def blocks() -> tuple[str, str]:
    """Return the command that starts the daemon, and the commands of the second terminal."""
    text = PAGE.read_text(encoding="utf-8").partition("## On the embedded cloud")[2]
    first, second = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    return first, second


def test_the_commands_of_the_section_run_as_they_stand(tmp_path: Path) -> None:
    """In a home without any file of Merkat."""
    start, ask = blocks()
    named = {"MERKAT_CONFIG", "MERKAT_ENDPOINT", "ONE_AUTH", "XDG_STATE_HOME"}
    kept: Mapping[str, str] = {
        name: value for name, value in os.environ.items() if name not in named
    }
    home = {**kept, "HOME": str(tmp_path), "NUMBA_DISABLE_JIT": "1"}
    with (tmp_path / "log").open("wb") as log:
        daemon = subprocess.Popen(
            ["bash", "-c", f"exec {start}"], cwd=ROOT, env=home, stdout=log, stderr=log
        )
    try:
        until(lambda: "Period 1:" in (tmp_path / "log").read_text(), "the first period")
        assert (tmp_path / STATE / "merkat_xmlrpc").exists()
        done = subprocess.run(
            ["bash", "-ec", ask], cwd=ROOT, env=home, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("MARKET"), done.stdout
        assert "core-hour" in done.stdout
    finally:
        daemon.send_signal(signal.SIGINT)
        daemon.wait(120)
