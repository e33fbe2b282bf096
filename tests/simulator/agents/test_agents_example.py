"""The example of `docs/experiments.md` on node agents runs and prints what the page says."""

import re

import pytest

from tests.docs.pages import ROOT

SECTION = (
    (ROOT / "docs/experiments.md")
    .read_text(encoding="utf-8")
    .partition("## Node agents")[2]
    .partition("\n## ")[0]
)


def test_the_example_prints_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    """It has at most 30 lines."""
    example, printed = re.findall(r"```(?:python|text)\n(.*?)```", SECTION, re.DOTALL)
    assert len(example.splitlines()) <= 30
    exec(compile(example, "docs/experiments.md", "exec"), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out == printed
