"""Dashboards, alerts and their page use exactly the existing metrics."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from merkatd.cli import parser
from tests.figures import all_figures

ROOT = Path(__file__).parents[3]
DASHBOARDS = sorted((ROOT / "dashboards").glob("*.json"))
RULES = ROOT / "dashboards/alerts.yml"
PAGE = ROOT / "docs/metrics.md"
_NAME = re.compile(r"\bmerkat_[a-z0-9_]+")
_OF_HISTOGRAMS = re.compile(r"_(bucket|count|sum|created)$")
_GRID = 24
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@pytest.fixture(scope="module")
def known() -> dict[str, str]:
    """Return the kind of each metric of a daemon by its query name."""
    return {
        family.name + ("_total" if family.type == "counter" else ""): family.type
        for family in all_figures()
        if not family.name.endswith("_created")
    }


def asked(text: str) -> set[str]:
    """Return the metrics that a text names."""
    return {_OF_HISTOGRAMS.sub("", name) for name in _NAME.findall(text)}


def panels(file: Path) -> list[dict[str, Any]]:
    """Return all panels of a dashboard."""
    panel_list: list[dict[str, Any]] = json.loads(file.read_text())["panels"]
    return panel_list


@pytest.mark.parametrize("file", [*DASHBOARDS, RULES], ids=lambda file: file.name)
def test_only_existing_metrics_are_queried(file: Path, known: dict[str, str]) -> None:
    """The queries use the exact names."""
    assert len(asked(file.read_text())) > 5
    assert asked(file.read_text()) <= known.keys()


def test_the_page_lists_every_metric_and_its_kind(known: dict[str, str]) -> None:
    """It lists no other, and has a line for each alert."""
    page = PAGE.read_text()
    kind_of = dict(re.findall(r"^\| `(merkat_\w+)` \| (\w+) \|", page, re.MULTILINE))
    assert kind_of == known
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    assert re.findall(r"^\| `(Merkat\w+)` \|", page, re.MULTILINE) == alerts


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.name)
def test_a_dashboard_can_be_displayed(file: Path) -> None:
    """Panels have distinct ids and places, and each queries its source."""
    drawn = panels(file)
    assert len({panel["id"] for panel in drawn}) == len(drawn)
    places = set[tuple[int, int]]()
    for panel in drawn:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= _GRID
        own = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not own & places, panel["title"]
        places |= own
        assert panel["type"] == "row" or all(target["expr"] for target in panel["targets"])


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.name)
def test_a_dashboard_follows_grafanas_model(file: Path) -> None:
    """These are the rules of the JSON model that can be checked without Grafana."""
    board = json.loads(file.read_text())
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,40}", board["uid"])
    assert "id" not in board, "the Grafana that imports it assigns the id"
    # From 36 on a source is named by kind and uid; 38 has the panels in use.
    assert (board["schemaVersion"], type(board["version"]), board["editable"]) == (38, int, True)
    assert board["title"]
    assert board["time"].keys() == {"from", "to"}
    assert board["graphTooltip"] in {0, 1, 2}
    assert all(link["type"] in {"dashboards", "link"} for link in board["links"])
    variables = board["templating"]["list"]
    for variable in variables:
        assert variable["type"] in {"datasource", "query"}
        assert (variable.get("hide", 0), variable["refresh"]) in {(0, 1), (0, 2)}
        assert variable["type"] == "datasource" or variable["datasource"] == _SOURCE
    for panel in board["panels"]:
        at = panel["gridPos"]
        assert type(panel["id"]) is int
        assert panel["id"] > 0
        assert min(at["x"], at["y"]) >= 0
        assert min(at["w"], at["h"]) > 0
        assert panel["type"] in {"row", "stat", "timeseries"}
        if panel["type"] == "row":
            assert (type(panel["collapsed"]), panel["panels"]) == (bool, [])
            continue
        assert panel["datasource"] == _SOURCE
        assert panel["fieldConfig"].keys() == {"defaults", "overrides"}
        targets = panel["targets"]
        assert len({target["refId"] for target in targets}) == len(targets)
        assert all(target["datasource"] == _SOURCE for target in targets)
    named = {name for name in re.findall(r"\$\{?(\w+)", file.read_text()) if name[:2] != "__"}
    assert named <= {variable["name"] for variable in variables}


def test_dashboards_have_distinct_uids() -> None:
    """An imported dashboard replaces another one with its uid."""
    uids = [json.loads(file.read_text())["uid"] for file in DASHBOARDS]
    assert len(set(uids)) == len(uids) == len(DASHBOARDS) > 1


def test_alerts_name_existing_commands() -> None:
    """The commands can be typed as shown."""
    commands = r"merkatd ((?:list|log|explain|resume|plan|check|tenant)\b[^;\"]*)"
    commands_named = re.findall(commands, RULES.read_text())
    assert len(commands_named) > 5
    for words in commands_named:
        command = words.partition(" has ")[0].partition(" says ")[0]
        assert parser().parse_args(shlex.split(command)).run is not None
