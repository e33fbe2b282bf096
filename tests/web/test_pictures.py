"""The documentation's pictures: those that `make pictures` takes, each small and on a page."""

import re
from pathlib import Path

from tests.real.web.pictures import FOLDER, MAX_BYTES, PICTURES, name_of

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))


def test_the_folder_has_exactly_the_pictures_of_the_list() -> None:
    """Each is as wide as its name says."""
    files = {file.name: file.read_bytes() for file in FOLDER.iterdir()}
    names = {name_of(screen, width, dark=dark): width for screen, width, dark in PICTURES}
    assert set(files) == set(names)
    for name, width in names.items():
        assert int.from_bytes(files[name][16:20], "big") == width, name


def test_each_is_small() -> None:
    """A clone of the repository stays small."""
    assert [file.name for file in FOLDER.iterdir() if file.stat().st_size > MAX_BYTES] == []


def test_each_is_on_a_page() -> None:
    """With a text for readers who don't see it; no page shows another picture."""
    shown = {
        match[1]
        for page in PAGES
        for match in re.finditer(r"!\[[^\]]+\]\((?:docs/)?pictures/([^)]+)\)", page.read_text())
    }
    assert shown == {file.name for file in FOLDER.iterdir()}
