"""The page of concepts: nine words, each with a drawing that the daemon's functions computed."""

import re
from xml.etree import ElementTree as ET

import pytest

from tests.docs.drawings import DRAWINGS, FOLDER, HOST, shares, unit_price

PAGE = (FOLDER.parent / "concepts.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DRAWINGS)
def test_each_drawing_is_up_to_date(name: str) -> None:
    """`python -m tests.docs.drawings` writes the same text, and it is well-formed."""
    text = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert text == DRAWINGS[name]().render()
    ET.fromstring(text)  # noqa: S314 - our own file


def test_each_concept_has_its_drawing() -> None:
    """With a text for readers who don't see it; no file is left over."""
    concepts = re.findall(r"^## (\w+)$", PAGE, re.MULTILINE)
    shown = re.findall(r"!\[([^\]]+)\]\(drawings/(\w+)\.svg\)", PAGE)
    assert [name for _, name in shown] == [word.lower() for word in concepts[:-1]]
    assert {file.stem for file in FOLDER.iterdir()} == set(DRAWINGS) == {name for _, name in shown}


def test_what_the_page_says_of_its_drawings() -> None:
    """Its sentences have these numbers."""
    assert shares({"ana": 3.0, "bo": 1.0, "cy": 1.0}) == {"ana": 240, "bo": 80, "cy": 80}
    low, high = (unit_price([1.0] * count, 2 * HOST, cap=100.0) for count in (8, 16))
    assert (low, high) == (0.0001, 0.02)
