"""The example in `docs/strategies.md` is the code that runs, and its tables name what there is."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from textwrap import dedent
from typing import Any, cast, get_args

import numpy as np
import pytest

from merkatd.cluster import Deploy
from merkatd.cluster.plan import OfHost
from merkatd.commands.programs.strategy_files import load_strategy
from merkatd.placement import STRATEGIES, StrategyEntry
from merkatd.placement.changes.plan_changes import OPERATIONS
from merkatd.placement.contract import Allocation, Charge, MoveLimits, Need
from merkatd.placement.made_up_needs import with_needs
from merkatd.placement.setting_meanings import docs_of
from tests.clouds import cloud, hosts_table, tangled, vms_table
from tests.docs.pages import ROOT
from tests.placement.conformance.all_promises import keep_all_promises

PAGE = (ROOT / "docs/strategies.md").read_text(encoding="utf-8")


EXAMPLE, OTHER, JOBS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[1:4]
BESIDE_REGISTRY = """
import sys

import pytest

from pathlib import Path
from merkatd.commands.programs.strategy_files import load_strategy

names = [load_strategy(Path(file)).name for file in sys.argv[1:]]
words = ["-q", "-p", "no:cacheprovider", "-k", " or ".join(names)]
sys.exit(pytest.main([*words, "tests/placement/conformance"]))
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """Yield a file that has the example and nothing else."""
    path = tmp_path / "busiest.py"
    path.write_text(EXAMPLE, encoding="utf-8")
    yield path
    cast("dict[str, Any]", STRATEGIES).pop("busiest", None)


def test_the_example_is_a_whole_strategy_that_keeps_all_promises(file: Path) -> None:
    """Its 40 lines need nothing else: not even a line in the registry."""
    assert len(EXAMPLE.splitlines()) <= 40
    entry = load_strategy(file)
    assert STRATEGIES["busiest"] is entry
    assert docs_of(entry.settings)["most_vms"]
    keep_all_promises(entry)


def test_both_examples_pass_the_whole_conformance_suite(tmp_path: Path) -> None:
    """As a strategy of the registry does, in a process with their files in it."""
    files = [tmp_path / "busiest.py", tmp_path / "lots.py"]
    for path, text in zip(files, (EXAMPLE, OTHER), strict=True):
        path.write_text(text, encoding="utf-8")
    words = [sys.executable, "-c", BESIDE_REGISTRY, *map(str, files)]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    ran = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:]


def test_the_other_example_wishes_more_vms_and_draws_hosts(tmp_path: Path) -> None:
    """For services that are late alone; the hosts follow the random numbers."""
    path = tmp_path / "lots.py"
    path.write_text(OTHER, encoding="utf-8")
    try:
        entry = load_strategy(path)
    finally:
        cast("dict[str, Any]", STRATEGIES).pop("lots", None)
    snapshot = with_needs(tangled(3), entry.needs)
    assert not entry.decide(snapshot).wishes
    late = replace(snapshot.services, response_s=snapshot.services.response_goal_s * 2)
    (wish,) = entry.decide(replace(snapshot, services=late)).wishes
    assert wish.replicas == (snapshot.vms.application == wish.application).sum() + 1
    hosts = hosts_table(np.full((9, 2), 800.0))
    many = cloud(hosts, vms_table([-1] * 9, np.ones((9, 2)), np.full((9, 2), 100.0)))
    places = {
        tuple(step.host for step in entry.decide(replace(many, period=period)).plan.of(Deploy))
        for period in range(5)
    }
    assert len(places) == 5


def test_the_lines_about_jobs_find_the_speed_that_each_needs() -> None:
    """From the rest of the work of all its stages, and the time until its goal."""
    snapshot = with_needs(tangled(3), frozenset({Need.JOBS}))
    found: dict[str, Any] = {"np": np, "snapshot": snapshot}
    exec(dedent(JOBS), found)  # noqa: S102 - the page is ours
    jobs, stages = snapshot.jobs, snapshot.stages
    assert len(jobs)
    for row, speed in enumerate(found["needed_speed"].tolist()):
        rest = sum(stages.work[stages.job == row]) - jobs.work_done[row]
        left_s = max(jobs.goal_s[row] - snapshot.now_s, 1.0)
        assert speed == pytest.approx(max(rest, 0.0) / left_s, nan_ok=True)


def test_the_example_does_what_it_says(file: Path) -> None:
    """New VMs start on the host with the most VMs that has room, below the number set."""
    entry = load_strategy(file)
    hosts = hosts_table(np.full((3, 2), 800.0))
    vms = vms_table([1, 1, 2, -1, -1], np.ones((5, 2)), np.full((5, 2), 100.0))
    decision = entry.decide(cloud(hosts, vms))
    assert [(step.vm, step.host) for step in decision.plan.of(Deploy)] == [(3, 1), (4, 1)]
    few = replace(entry.defaults, most_vms=2)
    decision = entry.decide(cloud(hosts, vms), few)
    assert [(step.vm, step.host) for step in decision.plan.of(Deploy)] == [(3, 2), (4, 0)]


def test_the_page_names_the_command_that_runs_the_example() -> None:
    """`merkatd demo` takes the file by its name; a test of the demo runs it."""
    assert "merkatd demo --strategy busiest.py" in PAGE


def test_the_table_has_every_declaration() -> None:
    """Each field of an entry, and each value that it can have."""
    table = PAGE.partition("| Field | Meaning |")[2].partition("\n\n")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    declared = {each.name for part in (StrategyEntry, MoveLimits) for each in fields(part)}
    declared -= {"strategy"}
    assert named == declared | {*Allocation} | {*Charge} | {*Need}


def test_the_steps_are_all_that_a_strategy_can_decide() -> None:
    """One row for each operation, or for two of them."""
    table = PAGE.partition("| Step | Meaning |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines() for name in re.findall(r"`([A-Z][a-z]+)`", row)}
    assert named == {kind.__name__ for kind in (*OPERATIONS, *get_args(OfHost))}
