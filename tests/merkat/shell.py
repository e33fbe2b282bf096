"""`merkat` in this process, as a user on a machine of its own."""

import json
from pathlib import Path
from typing import Any

import pytest

from merkat.cli import main
from tests.commands.command_shell import CommandShell
from tests.onegroup.site import ANN, TEMPLATE


class TenantShell(CommandShell):
    """Runs `merkat` as a user, without the settings of this machine."""

    def __init__(
        self,
        folder: Path,
        capture: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        super().__init__(main, ("merkat ", "merkat: "), folder, capture, monkeypatch)
        for name in ("COLUMNS", "MERKAT_ENDPOINT", "MERKAT_XMLRPC", "XDG_CONFIG_HOME"):
            monkeypatch.delenv(name, raising=False)
        self.set("HOME", str(folder))
        (folder / "vm.template").write_text(TEMPLATE)
        monkeypatch.chdir(folder)
        self.login(ANN)

    def settings(self, text: str) -> Path:
        """Write the file of settings."""
        file = self.folder / ".config" / "merkat" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def json(self, words: str) -> Any:
        """Return the data of a command that must succeed."""
        return json.loads(self.ok(f"{words} --json"))

    def refused(self, words: str, code: int = 1, typed: str = "") -> str:
        """Return the single error line of a command that must fail, and prints nothing else."""
        result = self(words, typed)
        assert result.out == "", result
        return self._line(result, code)
