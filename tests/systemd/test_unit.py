"""systemd itself finds nothing wrong with the service, its user and its folders."""

import shutil
import subprocess
from pathlib import Path

import pytest

from merkatd.commands.terminal.command_parser import CONFIGURATION
from merkatd.config.configuration import Config

FILES = Path(__file__).parents[2] / "systemd"
UNIT = FILES / "merkatd.service"
MOST_EXPOSED = 15
"""In tenths; systemd calls a service OK up to 50, and leaves 12 to one that uses the network."""

analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here"
)


@analyze
def test_the_unit_is_one(tmp_path: Path) -> None:
    """Every key is known and every value understood; the program is another one here."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("ExecStart=merkatd", "ExecStart=/bin/true"))
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")


@analyze
def test_it_has_few_rights() -> None:
    """As systemd counts them."""
    result = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", str(UNIT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-200:]


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="systemd is not here")
def test_user_and_folders_are_made(tmp_path: Path) -> None:
    """On an empty system; the configuration can't be read by others."""
    for tool, file in (
        (["systemd-sysusers"], "merkat.sysusers"),
        (["systemd-tmpfiles", "--create"], "merkat.tmpfiles"),
    ):
        (tmp_path / "etc").mkdir(exist_ok=True)
        result = subprocess.run(
            [*tool, f"--root={tmp_path}", str(FILES / file)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
    assert "merkat:" in (tmp_path / "etc/passwd").read_text()
    assert (tmp_path / "etc/merkat").stat().st_mode & 0o777 == 0o750


def test_it_is_supervised_reloaded_and_given_time_to_end() -> None:
    """It says when it is ready and that it lives; its grace is shorter than systemd's patience.

    What can't be mended by another try is not tried again.
    """
    keys = dict(line.split("=", 1) for line in UNIT.read_text().splitlines() if "=" in line)
    assert (keys["Type"], keys["WatchdogSec"]) == ("notify", "60s")
    assert keys["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert (keys["Restart"], keys["RestartPreventExitStatus"]) == ("on-failure", f"{CONFIGURATION}")
    assert float(keys["TimeoutStopSec"].removesuffix("s")) > Config().period.grace_s
