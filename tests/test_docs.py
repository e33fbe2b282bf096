"""The examples and links of the documents work."""

import json
import re
from pathlib import Path

import pytest

from merkatd.cli import main
from merkatd.cluster.columns import column_types
from merkatd.cluster.snapshot_json import loads
from merkatd.cluster.snapshot_json_reader import TABLES
from merkatd.config.loader import parse

ROOT = Path(__file__).parents[1]


def test_the_readmes_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The example deploys, migrates and explains VMs."""
    assert main(["plan", "--snapshot", str(ROOT / "docs/example.json")]) == 0
    out = capsys.readouterr().out
    assert "1 deploy, 2 migrate" in out
    assert "pending  VM 15" in out


def test_the_snapshot_page_shows_a_snapshot_and_names_every_column() -> None:
    """The example is valid, and every column is documented."""
    page = (ROOT / "docs/snapshot.md").read_text()
    example = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert example is not None
    assert len(loads(example[1]).vms) == 2
    assert json.loads(example[1])["merkat_snapshot"] == 1
    for name, table in TABLES.items():
        assert f"`{name}`" in page
        for column in column_types(table):
            assert f"`{column}`" in page, f"{name}.{column}"


@pytest.mark.parametrize("page", sorted(ROOT.glob("**/*.md")), ids=lambda page: page.name)
def test_links_between_pages_lead_to_files(page: Path) -> None:
    """Every relative link names a file of this repository."""
    if ".venv" in page.parts:
        return
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_configuration_on_the_installation_page_is_valid() -> None:
    """All tables of the page form one valid configuration."""
    page = (ROOT / "docs/install.md").read_text()
    tables = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    config = parse("\n".join(tables), "docs/install.md")
    assert config.cloud.kind == "opennebula"


QUESTIONS = {
    "what will it do to my VMs": "What will it do to my VMs?",
    "how do I stop it": "How do I stop it?",
    "how do I go back": "How do I go back?",
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_readme_links_to_the_answer_of(question: str) -> None:
    """The link leads to the heading of the answer."""
    readme = (ROOT / "README.md").read_text()
    heading = QUESTIONS[question]
    anchor = re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")
    assert f"(docs/administrator.md#{anchor})" in readme
    assert f"\n## {heading}\n" in (ROOT / "docs/administrator.md").read_text()


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/*.md")), ids=lambda page: page.name)
def test_links_into_pages_lead_to_headings(page: Path) -> None:
    """Each anchor names a heading of the same page or of another one."""
    for target, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", page.read_text()):
        if target.startswith("http"):
            continue
        text = (page.parent / target).read_text() if target else page.read_text()
        headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        known = {
            re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-") for heading in headings
        }
        assert anchor in known, f"{target}#{anchor}"


def test_the_readme_links_to_every_page() -> None:
    """Each page of docs has a link in the README."""
    readme = (ROOT / "README.md").read_text()
    for page in ROOT.glob("docs/*.md"):
        assert f"(docs/{page.name})" in readme, page.name


def test_the_troubleshooting_page_quotes_messages_of_the_daemon() -> None:
    """Each quote is in the source; dots and numbers stand for values."""
    page = (ROOT / "docs/troubleshooting.md").read_text()
    source = " ".join(path.read_text() for path in sorted((ROOT / "merkatd").rglob("*.py")))
    text = re.sub(r'"\s*\n\s*f?"', "", source)
    quotes = re.findall(r'"([^"\n]+)"', page.replace('"YES"', ""))
    assert len(quotes) > 10
    for quote in quotes:
        for part in re.split(r" \.\.\. | \d+ ", quote):
            assert part in text, part
