"""The documentation's pictures: one of every screen, small, and linked."""

import re
from pathlib import Path

from tests.real.web.screens import SCREENS, WIDTHS, names_of

DOCS = Path(__file__).parents[2] / "docs"
MOST_BYTES = 60_000
MOST_BYTES_TOGETHER = 2_000_000


def test_every_screen_has_its_pictures() -> None:
    """Each width has one of that width, and no removed screen has any."""
    files = {file.stem: file for file in (DOCS / "pictures").glob("*.png")}
    assert set(files) == {name for screen in SCREENS for name in names_of(screen)}
    for name, file in files.items():
        width = int(name.rpartition("-")[2])
        assert width in {one for one, _, _ in WIDTHS}
        assert int.from_bytes(file.read_bytes()[16:20], "big") == width, name


def test_pictures_are_small() -> None:
    """Each picture and their sum have a limit."""
    sizes = {file.name: file.stat().st_size for file in (DOCS / "pictures").glob("*.png")}
    assert [name for name, size in sizes.items() if size > MOST_BYTES] == []
    assert sum(sizes.values()) <= MOST_BYTES_TOGETHER


def test_every_picture_is_linked() -> None:
    """docs/web.md links every picture and no other."""
    linked = set(re.findall(r"\]\(pictures/([a-z0-9-]+)\.png\)", (DOCS / "web.md").read_text()))
    assert linked == {file.stem for file in (DOCS / "pictures").glob("*.png")}
