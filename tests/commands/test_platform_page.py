"""The tenants' page about platforms: its file and commands work as described."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from merkatd.cli import parser
from merkatd.protocol.controller_kinds import CONTROLLERS, MONITORS
from merkatd.protocol.platform_messages import Kinds
from tests.commands.asking import Shell
from tests.commands.test_platform import Platforms

PAGE = (Path(__file__).parents[2] / "docs/platforms.md").read_text()
COMMANDS = re.findall(r"^    merkatd (platform .+)$", PAGE, re.MULTILINE)
VERBS = ["submit", "show", "update", "suspend", "resume", "stop"]
AFTER = {
    "submit": "running",
    "show": "running",
    "update": "running",
    "suspend": "suspended",
    "resume": "running",
    "stop": "cancelled",
}
"""By verb: the state of the platform some periods later."""


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Platforms]:
    """Yield a daemon with the kinds of Merkat's own package; commands use it."""
    made = Platforms()
    kinds = Kinds(tuple(CONTROLLERS), tuple(MONITORS))
    monkeypatch.setattr(made.site.notes, "kinds", lambda: kinds)
    monkeypatch.setattr("merkatd.commands.socket_door.ask", made.ask)
    yield made
    made.site.close()


def test_the_pages_file_and_commands_work(
    daemon: Platforms, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands run in order as shown; a watched command runs once."""
    assert [command.split()[1] for command in COMMANDS] == VERBS
    monkeypatch.chdir(tmp_path)
    example = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    (tmp_path / "template.toml").write_text(example[1])
    for command in COMMANDS:
        assert parser().parse_args(command.split()).run is not None
        number = next(iter(daemon.numbers()), 0)
        shell.ok(command.removesuffix(" --watch").replace(" 7", f" {number}"))
        daemon.period(5)
        verb = command.split()[1]
        (number,) = daemon.numbers()
        assert daemon.answer("platform", platform=number)["state"] == AFTER[verb], command
    details = daemon.answer("platform", platform=number)
    assert details["budget"] == 800
    assert any(
        action["text"].count(";") == 2
        for action in details["actions"]
        if action["what"] == "update"
    )
