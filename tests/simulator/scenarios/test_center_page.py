"""The data centre in `docs/experiments.md` runs as printed, and gives the printed table."""

import csv
import re
from pathlib import Path

import pytest

from merkatd.cli import main
from tests.docs.pages import ROOT

SECTION = (
    (ROOT / "docs/experiments.md")
    .read_text(encoding="utf-8")
    .partition("## A data centre in a file")[2]
    .partition("\n## ")[0]
)
MOST_LINES = 60
"""A page of the printed documents has about as many."""


def test_the_data_centre_of_the_page_compares_three_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file has at most 30 lines; table, plot and columns over time come from it alone."""
    monkeypatch.chdir(tmp_path)
    example, printed = re.findall(r"```(?:toml|text)\n(.*?)```", SECTION, re.DOTALL)
    assert len(example.splitlines()) <= 30
    words = re.findall(r"`merkatd (experiment run \S+)`", SECTION)[0].split()
    Path(words[-1]).write_text(example, encoding="utf-8")
    assert main(words) == 0
    assert printed in capsys.readouterr().out
    folder = tmp_path / "experiments/racks"
    assert (folder / "figure.png").stat().st_size > 10_000
    with (folder / "columns.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert {row["system"] for row in rows} == {"first-fit", "pack", "tabu"}
    assert {row["seeds"] for row in rows} == {"3"}
    assert all(float(row["active_hosts_se"]) >= 0 for row in rows)


def test_the_description_fits_on_a_page() -> None:
    """Besides the example and its output."""
    text = re.sub(r"```.*?```", "", SECTION, flags=re.DOTALL)
    assert len(text.splitlines()) <= MOST_LINES
