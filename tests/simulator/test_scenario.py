"""Scenario files: their meaning, and their errors."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from merkatd.cli import main
from merkatd.placement.contract import Allocation, Charge
from merkatd.placement.registry import STRATEGIES
from simulator.model.simulated_cloud import HPC2N
from simulator.scenario import scenario_of
from simulator.scenarios.scenario_values import ScenarioError
from simulator.workloads.job_applications import TenantKind

SMALL = """
name = "small"
systems = ["fcfs", "orders"]
levels = [1.0, 0.5]

[cloud]
nodes = 3
cores = 4
memory_mib = 8192
period = "30s"
[cloud.costs]
boot_s = 12

[[workload]]
jobs = 20
largest = 4
span = "1h"
mean_run = "10m"
deadlines = [2, 3]
tenant = "partial-deadline"

[[application]]
submit = "10m"
run = "20m"
tasks = 3
memory_mib = 512
deadline = "1h"
budget = 500
"""
TRACE = "; Version: 2.2\n1 0 0 60 2 -1 -1 2 60 -1 1 1 1 -1 -1 -1 -1 -1\n"


def write_scenario(folder: Path, text: str) -> Path:
    """Write a scenario file."""
    file = folder / "some.toml"
    file.write_text(text)
    return file


def test_a_scenario_defines_cloud_and_applications(tmp_path: Path) -> None:
    """Missing values are those of the paper."""
    scenario = scenario_of(write_scenario(tmp_path, SMALL))
    cloud = scenario.cloud
    assert (cloud.nodes, cloud.cpu, cloud.period_s, cloud.costs.boot_s) == (3, 400.0, 30.0, 12.0)
    assert cloud.renewal_s == 3600.0
    applications = scenario.applications(seed=1, level=0.5)
    assert len(applications) == 21
    assert [application.number for application in applications] == list(range(21))
    submitted = [application.submit_s for application in applications]
    assert submitted == sorted(submitted)
    (mine,) = (
        application
        for application in applications
        if application.tenant is TenantKind.FULL_DEADLINE
    )
    assert (mine.submit_s, mine.run_s, mine.deadline_s, mine.budget) == (300, 1200, 3600, 500)
    drawn = [application for application in applications if application is not mine]
    assert max(application.submit_s for application in drawn) == pytest.approx(1800.0)
    assert np.mean([application.run_s for application in drawn]) == pytest.approx(600.0, rel=0.02)
    assert all(2 <= application.deadline_s / application.ideal_s <= 3 for application in drawn)


def test_a_seed_draws_the_same_applications_again(tmp_path: Path) -> None:
    """Another seed draws other applications."""
    scenario = scenario_of(write_scenario(tmp_path, SMALL))
    assert scenario.applications(1, 1.0) == scenario.applications(1, 1.0)
    assert scenario.applications(1, 1.0) != scenario.applications(2, 1.0)


def test_a_trace_is_relative_to_its_scenario(tmp_path: Path) -> None:
    """The present directory does not matter."""
    (tmp_path / "jobs.swf").write_text(TRACE)
    file = write_scenario(tmp_path, '[[workload]]\ntrace = "jobs.swf"\n')
    (only,) = scenario_of(file).applications(0, 1.0)
    assert (only.tasks, only.run_s) == (2, 60.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "[[workload]] or [[application]]: at least one table is required"),
        ("nodes = 3\n[[workload]]\n", "nodes: unknown key"),
        ("[cloud]\nnode = 3\n[[workload]]\n", "did you mean 'nodes'?"),
        ('systems = ["edv"]\n[[workload]]\n', "did you mean 'edf'?"),
        ("levels = []\n[[workload]]\n", "must be a list of at least one value"),
        ("[[workload]]\ndeadlines = [3, 2]\n", "the least and the greatest"),
        (
            "[[workload]]\nmemory = [0.1, 0.6]\n",
            "at most 0.5, as fcfs, easy and edf count only cores",
        ),
        ('systems = ["paper"]\n[[workload]]\nmemory = [0.1, 2]\n', "at most 1, the whole node"),
        ('[[workload]]\ntrace = "none.swf"\n', "no such file in the folder"),
        ('[[application]]\nrun = "1h"\n', "deadline: is missing"),
        ('[[application]]\nrun = "0s"\ndeadline = "1h"\n', "a time above 0"),
        ('[[application]]\nrun = "1h"\ndeadline = "2h"\ntasks = 500\n', "the cloud's cores, 240"),
        ('[cloud]\nstrategy = "nearest"\n[[workload]]\n', "tabu"),
        ("[cloud", "Expected ']'"),
    ],
)
def test_errors_name_the_accepted_values(tmp_path: Path, text: str, message: str) -> None:
    """Each error has the place and the accepted values."""
    with pytest.raises(ScenarioError) as caught:
        scenario_of(write_scenario(tmp_path, text))
    assert message in str(caught.value)


def test_the_command_runs_a_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints the systems side by side, writes rows, and reports a missing file."""
    output = ["--seeds", "1", "--processes", "1", "--output", str(tmp_path / "out")]
    short = SMALL.replace("jobs = 20", "jobs = 5").replace('"10m"', '"2m"').replace('"20m"', '"2m"')
    assert main(["experiment", "run", str(write_scenario(tmp_path, short)), *output]) == 0
    printed = capsys.readouterr().out
    assert "deadlines met, %" in printed
    assert (tmp_path / "out" / "small" / "rows.csv").read_text().count("orders") == 2
    assert main(["experiment", "run", str(tmp_path / "none.toml"), *output]) == 1
    assert "none.toml" in capsys.readouterr().err


def test_the_scenario_in_the_documents_is_valid(tmp_path: Path) -> None:
    """The page's example is read unchanged."""
    page = Path(__file__).parents[2] / "docs" / "experiments.md"
    _, _, behind = page.read_text().partition("```toml\n")
    scenario = scenario_of(write_scenario(tmp_path, behind.partition("```")[0]))
    assert len(scenario.applications(0, 1.0)) == 161


@dataclass(frozen=True, slots=True)
class WithoutPrices:
    """Settings of a strategy to which prices mean nothing."""


@pytest.mark.parametrize(
    "declared",
    [
        {"allocates": Allocation.OWN},
        {"charges": Charge.NONE},
        {"settings": WithoutPrices},
    ],
)
def test_strategies_without_prices_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: dict[str, Any]
) -> None:
    """Simulated platforms bid; the message names the strategies that sell shares."""
    known = cast("dict[str, Any]", STRATEGIES)
    monkeypatch.setitem(known, "other", replace(STRATEGIES["tabu"], name="other", **declared))
    with pytest.raises(ScenarioError, match="tabu"):
        scenario_of(write_scenario(tmp_path, '[cloud]\nstrategy = "other"\n[[workload]]\n'))
    with pytest.raises(ValueError, match="it sells no shares for prices; expected one of tabu"):
        replace(HPC2N, strategy="other")
