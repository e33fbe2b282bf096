"""A daemon with two markets on its embedded cloud over HTTP, and `onegroup` in this process."""

import json
from pathlib import Path
from typing import Any, Protocol

import pytest

from onegroup.cli import main
from tests.api.xmlrpc.site import ANN, BOB, PASSWORD, Site, until
from tests.commands.asking import Said

MARKETS = """
[hypervisor]
pin_hosts = ["*"]
[market.groups]
strategy = "groups"
[market.elsewhere]
cluster_names = ["elsewhere"]
"""
TEMPLATE = """\
CPU="0.5"
VCPU="1"
MEMORY="256"
"""
EVE = f"eve:{PASSWORD}"

__all__ = ["ANN", "BOB", "EVE", "MARKETS", "TEMPLATE", "Shell", "Site", "until"]


class Place(Protocol):
    """The address of a daemon."""

    @property
    def endpoint(self) -> str:
        """Return the address."""


class Shell:
    """Runs `onegroup` as a user."""

    def __init__(
        self,
        site: Place,
        folder: Path,
        capture: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        self.folder = folder
        self._capture, self._monkeypatch = capture, monkeypatch
        self.turn_to(site)
        monkeypatch.delenv("COLUMNS", raising=False)
        (folder / "vm.template").write_text(TEMPLATE)
        monkeypatch.chdir(folder)
        self.login(ANN)

    def turn_to(self, site: Place) -> None:
        """Use this daemon from now on."""
        self._monkeypatch.setenv("MERKAT_XMLRPC", site.endpoint)

    def login(self, session: str) -> None:
        """Act as this user from now on."""
        file = self.folder / "one_auth"
        file.write_text(f"{session}\n")
        self._monkeypatch.setenv("ONE_AUTH", str(file))

    def __call__(self, words: str, typed: str = "") -> Said:
        """Run the command with these arguments and this standard input."""
        self._capture.readouterr()
        file = self.folder / "typed"
        file.write_text(typed)
        with file.open() as stdin:
            self._monkeypatch.setattr("sys.stdin", stdin)
            try:
                code = main(words.split())
            except SystemExit as stopped:
                code = stopped.code if isinstance(stopped.code, int) else 1
        printed = self._capture.readouterr()
        return Said(code, printed.out, printed.err)

    def ok(self, words: str, typed: str = "") -> str:
        """Return the output of a command that must succeed without warnings."""
        result = self(words, typed)
        assert (result.code, result.err) == (0, ""), result
        return result.out

    def refused(self, words: str, code: int = 1, typed: str = "") -> str:
        """Return the single error line of a command that must fail."""
        result = self(words, typed)
        assert result.code == code, result
        assert result.err.count("\n") == 1, result.err
        assert result.err.startswith("onegroup"), result.err
        return result.err

    def create(self, words: str = "create -t vm.template -s 60 -n 2") -> int:
        """Create a group and return its id."""
        return int(self.ok(words).removeprefix("ID: "))

    def show(self, group: int) -> dict[str, Any]:
        """Return all data of a group."""
        row: dict[str, Any] = json.loads(self.ok(f"show {group} --json"))
        return row

    def groups(self) -> list[dict[str, Any]]:
        """Return all visible groups with the columns of `list`."""
        rows: list[dict[str, Any]] = json.loads(self.ok("list --json"))
        return rows

    def until_running(self, group: int, count: int) -> dict[str, Any]:
        """Wait until exactly `count` VMs of the group run; return its data."""

        def there() -> bool:
            row = self.show(group)
            return bool(row["running"] == count == len(row["vms"]))

        until(there, f"{count} VMs of group {group}")
        return self.show(group)
