"""docs/commands.md shows the real output of `merkatd explain`, `quote` and `capacity`."""

import re
from pathlib import Path

import pytest

from tests.commands.asking import Shell

PAGE = (Path(__file__).parents[2] / "docs/commands.md").read_text()
WIDTH = "100"
"""The width of the terminal on the page."""


@pytest.mark.parametrize("command", ["explain", "quote", "capacity"])
def test_the_page_shows_the_real_output(
    command: str, asked: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command on the page prints the text below it."""
    monkeypatch.setenv("COLUMNS", WIDTH)
    sample = re.search(
        rf"^## {command}\n\n    \$ merkatd (.*)\n((?:    .*\n|\n(?=    ))+)", PAGE, re.MULTILINE
    )
    assert sample is not None
    shown = [line.removeprefix("    ") for line in sample[2].splitlines()]
    assert asked.ok(sample[1]).lines == shown
