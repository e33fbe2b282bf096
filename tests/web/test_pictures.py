"""The documentation's pictures: of every screen, none too large, each linked."""

import re
from pathlib import Path

from tests.real.web.screens import SCREENS, WIDTHS, names_of

DOCS = Path(__file__).parents[2] / "docs"
MOST_BYTES = 60_000
MOST_BYTES_TOGETHER = 2_000_000


def test_there_is_one_of_every_screen() -> None:
    """At each width, as wide as it says, and none of a screen that there is no more."""
    files = {file.stem: file for file in (DOCS / "pictures").glob("*.png")}
    assert set(files) == {name for screen in SCREENS for name in names_of(screen)}
    for name, file in files.items():
        width = int(name.rpartition("-")[2])
        assert width in {one for one, _, _ in WIDTHS}
        assert int.from_bytes(file.read_bytes()[16:20], "big") == width, name


def test_they_are_small() -> None:
    """Each by itself, and all together."""
    sizes = {file.name: file.stat().st_size for file in (DOCS / "pictures").glob("*.png")}
    assert [name for name, size in sizes.items() if size > MOST_BYTES] == []
    assert sum(sizes.values()) <= MOST_BYTES_TOGETHER


def test_each_is_linked() -> None:
    """From the page's own documentation, which links no other."""
    linked = set(re.findall(r"\]\(pictures/([a-z0-9-]+)\.png\)", (DOCS / "web.md").read_text()))
    assert linked == {file.stem for file in (DOCS / "pictures").glob("*.png")}
