"""A command that only asks the daemon starts fast."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from merkatd.cli import main

HEAVY = {"numpy", "scipy", "numba", "sqlalchemy", "twisted", "lxml", "zmq", "alembic"}
LIGHT = (
    "status",
    "list",
    "explain",
    "price",
    "bid",
    "order",
    "log",
    "pause",
    "limits",
    "platform",
    "quote",
    "report",
    "capacity",
    "whatif",
    "share",
)


@pytest.mark.parametrize("command", LIGHT)
def test_no_large_package_is_imported(command: str, tmp_path: Path) -> None:
    """Neither parsing the arguments nor finding the daemon needs one."""
    file = tmp_path / "merkatd.toml"
    file.write_text(f'[daemon]\nstate_directory = "{tmp_path}"\n')
    asked = (
        "import sys; from merkatd.cli import parser;"
        f" parser([{command!r}]);"
        " from merkatd.commands.socket_door import daemon_socket;"
        f" from pathlib import Path; assert daemon_socket(Path({str(file)!r}));"
        " print(*{name.partition('.')[0] for name in sys.modules})"
    )
    result = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True
    )
    assert not HEAVY & set(result.stdout.split())


def test_a_command_collects_garbage_once_it_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only its imports run without garbage collections."""
    monkeypatch.setattr(sys, "argv", ["merkatd", "completion", "bash"])
    assert main() == 0
    assert capsys.readouterr().out
    assert gc.isenabled()
