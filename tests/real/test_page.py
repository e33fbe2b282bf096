"""The commands of docs/limits.md work on real hosts and show what is true there."""

import json
import re
from pathlib import Path
from typing import Any

from tests.real.host import ROOT, RealHost, until
from tests.real.site import running

GOODS = '[goods]\nnetwork = true\nhost_network = "10Gbit/s"'
NEEDED = {"limits", "status", "explain", "plan", "pause", "release", "resume", "log", "bid"}
PAGE = ROOT / "docs/limits.md"
_COMMANDS = re.compile(r"^ {4}merkatd (\w+[^#\n]*)|`merkatd\s([^`]+)`", re.MULTILINE)
_OF_ITS_OWN = "demo"
"""The command with a test of its own."""


def commands() -> list[list[str]]:
    """Return the page's commands in order, each once."""
    words_of_lines = [
        (block or inline).split() for block, inline in _COMMANDS.findall(PAGE.read_text())
    ]
    return [
        line
        for at, line in enumerate(words_of_lines)
        if line[0] != _OF_ITS_OWN and line not in words_of_lines[:at]
    ]


def test_every_command_works_on_real_hosts(mortal_hosts: list[RealHost], tmp_path: Path) -> None:
    """Commands run as written, with names of real guests; wanted, set and used limits agree."""
    host = mortal_hosts[0]
    host.keep_to(0)
    with running(tmp_path, [host], cores=1, more=GOODS) as site:
        vms = [site.new(1.0, vcpus=1), site.new(3.0, vcpus=1)]
        site.after_periods(3)
        rows: list[Any] = []

        def used() -> bool:
            rows[:] = json.loads(site.command("limits", "--json"))
            return all(row["used_cpu"] for row in rows)

        until(used, "all guests have used something since the latest period")
        shown = {row["id"]: (row["cpu"], row["set_cpu"]) for row in rows}
        assert shown == dict(zip(vms, ((25.0, 25.0), (75.0, 75.0)), strict=True))

        names = {"web-3": str(vms[0]), "node-7": "host000"}
        commands_run = commands()
        assert {words[0] for words in commands_run} >= NEEDED
        for words in commands_run:
            more = ["--yes"] if words[0] == "release" else []
            assert site.command(*(names.get(word, word) for word in words), *more)
        assert not site.failed
