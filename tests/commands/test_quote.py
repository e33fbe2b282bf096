"""docs/commands.md shows what `merkatd explain` and `merkatd quote` print."""

import re
from pathlib import Path

import pytest

from tests.commands.asking import Shell

PAGE = (Path(__file__).parents[2] / "docs/commands.md").read_text()
WIDTH = "100"
"""The columns of the terminal that the page shows."""


@pytest.mark.parametrize("command", ["explain", "quote"])
def test_the_page_shows_a_real_answer(
    command: str, asked: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command, typed as it stands there, prints what stands below it."""
    monkeypatch.setenv("COLUMNS", WIDTH)
    sample = re.search(
        rf"^## {command}\n\n    \$ merkatd (.*)\n((?:    .*\n|\n(?=    ))+)", PAGE, re.MULTILINE
    )
    assert sample is not None
    shown = [line.removeprefix("    ") for line in sample[2].splitlines()]
    assert asked.ok(sample[1]).lines == shown
