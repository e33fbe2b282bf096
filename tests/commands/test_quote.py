"""docs/commands.md shows what `merkatd quote` says."""

import re
from pathlib import Path

from tests.commands.asking import Shell

PAGE = (Path(__file__).parents[2] / "docs/commands.md").read_text()


def test_the_page_shows_a_real_quote(asked: Shell) -> None:
    """Its command, typed as it stands there, says what stands below it."""
    sample = re.search(r"^## quote\n\n    \$ merkatd (.*)\n((?:    .*\n)+)", PAGE, re.MULTILINE)
    assert sample is not None
    said = asked.ok(sample[1])
    assert [f"    {line}" for line in said.lines] == sample[2].splitlines()
