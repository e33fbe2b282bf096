"""What the documents show works as they show it."""

import json
import re
from pathlib import Path

import pytest

from merkatd.cli import main, parser
from merkatd.cluster.columns import forms
from merkatd.cluster.json_form import loads
from merkatd.cluster.json_read import TABLES
from merkatd.config.load import parse

ROOT = Path(__file__).parents[1]


def test_the_readmes_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """With something to deploy, to migrate and to explain."""
    assert main(["plan", "--snapshot", str(ROOT / "docs/example.json")]) == 0
    out = capsys.readouterr().out
    assert "1 deploy, 2 migrate" in out
    assert "pending  VM 15" in out


def test_the_snapshot_page_shows_a_snapshot_and_names_every_column() -> None:
    """The example is read as it stands; no column is undocumented."""
    page = (ROOT / "docs/snapshot.md").read_text()
    example = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert example is not None
    assert len(loads(example[1]).vms) == 2
    assert json.loads(example[1])["merkat_snapshot"] == 1
    for name, table in TABLES.items():
        assert f"`{name}`" in page
        for column in forms(table):
            assert f"`{column}`" in page, f"{name}.{column}"


@pytest.mark.parametrize("page", sorted(ROOT.glob("**/*.md")), ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """Every relative link names a file of this repository."""
    if ".venv" in page.parts:
        return
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_every_command_of_the_installation_page_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    """And its configuration is one that the daemon takes."""
    page = (ROOT / "docs/install.md").read_text()
    words = re.findall(
        r"(?:^    |^ExecStart=\S*/|`|-u merkat )merkatd ([^\n`]+)", page, re.MULTILINE
    )
    assert len(words) > 12
    for said in words:
        assert parser().parse_args(said.split()).run is not None
    assert capsys.readouterr().err == ""
    tables = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    whole = parse("\n".join(tables), "docs/install.md")
    assert whole.cloud.kind == "opennebula"
