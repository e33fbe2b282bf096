"""`merkatd check`: markets and clusters on the embedded cloud."""

import json
from pathlib import Path

import pytest

from tests.commands.asking import Shell
from tests.embedded.test_store import Kept


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """Return a configuration with a market on clusters that may be missing."""
    path = tmp_path / "merkatd.toml"
    path.write_text(
        f"[daemon]\nstate_directory = {json.dumps(str(tmp_path))}\n"
        '[market.default]\ncluster_names = ["default"]\n'
        '[market.fast]\ncluster_names = ["quick"]\n'
    )
    return path


def test_a_missing_cluster_is_an_error_before_the_first_start(
    configuration: Path, shell: Shell
) -> None:
    """The cloud will begin with one cluster; --offline looks at the file alone."""
    result = shell("check", "--config", str(configuration))
    assert result.code == 1
    assert "market fast: cluster quick does not exist" in result.err
    assert "the clusters are 0 (default)" in result.err
    assert shell.ok(f"check --offline --config {configuration}").lines
    assert not (configuration.parent / "cloud.db").exists()


def test_clusters_of_the_stored_cloud_are_looked_up(configuration: Path, shell: Shell) -> None:
    """A cluster that was added to the cloud exists; the file stays as it is."""
    state = configuration.parent / "cloud.db"
    stored = Kept(state)
    stored.ok("one.cluster.allocate", "quick")
    stored.store.close()
    before = state.read_bytes()
    output = shell.ok(f"check --config {configuration}").out
    assert "markets: default (tabu), fast (tabu)" in output
    assert state.read_bytes() == before


def test_another_file_in_place_of_the_state_is_one_line(configuration: Path, shell: Shell) -> None:
    """It names the file."""
    state = configuration.parent / "cloud.db"
    state.write_text("nothing of this kind\n" * 100)
    result = shell("check", "--config", str(configuration))
    assert result.code == 1
    assert f"{state}: file is not a database" in result.err
    assert result.err.count("\n") == 1
