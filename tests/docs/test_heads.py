"""The head of each page says for whom it is, and what its reader has at the end."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

PAGES = sorted(ROOT.glob("docs/*.md"))
PAPERS = sorted(ROOT.glob("docs/experiments/*.md"))
_READERS = r"For [^.]*\b(?:readers|tenants|administrators|developers|researchers)\b.*?\. "


@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in (*PAGES, *PAPERS)])
def test_for_whom_and_what_for(page: Path) -> None:
    """The first paragraph has both."""
    _, head, *_ = page.read_text(encoding="utf-8").split("\n\n")
    assert re.match(_READERS, head.replace("\n", " ")), head
    assert " At the end " in head.replace("\n", " ")


def test_each_page_is_in_the_readme() -> None:
    """A reader finds it from there."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES if f"(docs/{page.name}" not in readme] == []


def test_each_page_of_a_paper_is_in_the_experiments() -> None:
    """The page of all experiments leads to it."""
    entry = (ROOT / "docs/experiments.md").read_text(encoding="utf-8")
    assert [page.name for page in PAPERS if f"(experiments/{page.name})" not in entry] == []
