"""The example in `docs/strategies.md` is the code that runs, and its tables name what there is."""

import re
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import pytest

from merkatd.cluster import Deploy
from merkatd.cluster.plan import OfHost
from merkatd.commands.programs.strategy_files import load_strategy
from merkatd.placement import STRATEGIES, StrategyEntry
from merkatd.placement.changes.plan_changes import OPERATIONS
from merkatd.placement.contract import Allocation, Charge, MoveLimits, Need
from merkatd.placement.setting_meanings import docs_of
from tests.clouds import cloud, hosts_table, vms_table
from tests.docs.pages import ROOT
from tests.placement.conformance.all_promises import keep_all_promises

PAGE = (ROOT / "docs/strategies.md").read_text(encoding="utf-8")


EXAMPLE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """Yield a file that has the example and nothing else."""
    path = tmp_path / "busiest.py"
    path.write_text(EXAMPLE, encoding="utf-8")
    yield path
    cast("dict[str, Any]", STRATEGIES).pop("busiest", None)


def test_the_example_is_a_whole_strategy_that_keeps_all_promises(file: Path) -> None:
    """Its 45 lines need nothing else: not even a line in the registry."""
    assert len(EXAMPLE.splitlines()) <= 45
    entry = load_strategy(file)
    assert STRATEGIES["busiest"] is entry
    assert docs_of(entry.settings)["most_vms"]
    keep_all_promises(entry)


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
