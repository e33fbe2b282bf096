"""A daemon with two markets on its embedded cloud over HTTP, and `onegroup` in this process."""

import json
from pathlib import Path
from typing import Any, Protocol

import pytest

from onegroup.cli import main
from tests.api.xmlrpc.site import ANN, BOB, PASSWORD, Site, until
from tests.commands.command_shell import CommandShell

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


class Shell(CommandShell):
    """Runs `onegroup` as a user."""

    def __init__(
        self,
        site: Place,
        folder: Path,
        capture: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        super().__init__(main, ("onegroup",), folder, capture, monkeypatch)
        self.turn_to(site)
        monkeypatch.delenv("COLUMNS", raising=False)
        (folder / "vm.template").write_text(TEMPLATE)
        monkeypatch.chdir(folder)
        self.login(ANN)

    def turn_to(self, site: Place) -> None:
        """Use this daemon from now on."""
        self._monkeypatch.setenv("MERKAT_XMLRPC", site.endpoint)

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
