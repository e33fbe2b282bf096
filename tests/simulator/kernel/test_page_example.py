"""The example of `docs/experiments.md` runs as it is printed, and prints what the page says."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

SECTION = (
    (ROOT / "docs/experiments.md")
    .read_text(encoding="utf-8")
    .partition("## Whole data centres")[2]
    .partition("\n## ")[0]
)


def test_the_example_prints_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has at most 30 lines and writes a file for each decider."""
    monkeypatch.chdir(tmp_path)
    example, printed = re.findall(r"```(?:python|text)\n(.*?)```", SECTION, re.DOTALL)
    assert len(example.splitlines()) <= 30
    exec(compile(example, "docs/experiments.md", "exec"), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out == printed
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["FFD-sum.csv", "first fit.csv", "pack.csv"]
    assert all(len(path.read_text().splitlines()) == 74 for path in tmp_path.iterdir())
