"""Files with numbers that no cloud can have are refused, in both forms."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Snapshot
from merkatd.cluster.snapshot import SnapshotError
from merkatd.cluster.snapshot_json import dumps, loads
from merkatd.cluster.snapshot_npz import from_npz, to_npz
from tests.cluster.complete_snapshot import complete


def with_first(table: str, **values: float) -> Snapshot:
    """Return the complete cloud with other numbers in the first row of a table."""
    snapshot = complete()
    columns: dict[str, Any] = {}
    for column, value in values.items():
        columns[column] = np.array(getattr(getattr(snapshot, table), column))
        columns[column][0] = value
    parts: dict[str, Any] = {table: replace(getattr(snapshot, table), **columns)}
    return replace(snapshot, **parts)


def refusals(snapshot: Snapshot) -> tuple[str, str]:
    """Return the messages for the file in JSON and for the compact one."""
    text, compact = dumps(snapshot), to_npz(snapshot)
    with pytest.raises(SnapshotError) as of_text:
        loads(text)
    with pytest.raises(SnapshotError) as of_compact:
        from_npz(compact)
    return str(of_text.value), str(of_compact.value)


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("vms 0", "dirty_mib_s"),
        ("vms 0", "disk_mib"),
        ("hosts 0", "link_mbps"),
        ("hosts 0", "idle_watts"),
        ("hosts 0", "full_watts"),
        ("failure_rates[0]", "per_year"),
        ("jobs[0]", "work_done"),
        ("stages[0]", "work"),
        ("stages[0]", "least_speed"),
        ("stages[0]", "greatest_speed"),
        ("stages[0]", "memory_mib"),
        ("services[0]", "response_goal_s"),
        ("services[0]", "arrivals_per_s"),
        ("services[0]", "work_per_request"),
        ("services[0]", "response_s"),
        ("replicated[0]", "run_time_s"),
        ("replicated[0]", "reliability"),
    ],
)
def test_amounts_and_rates_below_0_are_refused(row: str, column: str) -> None:
    """In both forms, with the row; 0 is accepted."""
    table = re.split(r"\W", row)[0]
    rule = "must be at least 0 (got -0.5)"
    assert refusals(with_first(table, **{column: -0.5})) == (
        f"{row}, {column}: {rule}",
        f"{table}.{column}, row 0: {rule}",
    )
    least = {"full_watts": 80.0, "greatest_speed": 0.0}.get(column, 0.0)
    zero = with_first(table, **{column: least})
    assert dumps(loads(dumps(zero))) == dumps(from_npz(to_npz(zero))) == dumps(zero)


@pytest.mark.parametrize(
    ("table", "values", "equal", "message"),
    [
        (
            "hosts",
            {"idle_watts": 161.0},
            {"idle_watts": 160.5},
            "hosts.full_watts, row 0 (name host0): must be at least idle_watts, 161 (got 160.5)",
        ),
        (
            "stages",
            {"least_speed": 2.0},
            {"least_speed": 1.0},
            "stages.greatest_speed, row 0 (job 0): must be at least least_speed, 2 (got 1)",
        ),
        (
            "jobs",
            {"goal_s": -10.0},
            {"goal_s": 0.0},
            "jobs.goal_s, row 0 (application 1): must be at least submitted_s, 0 (got -10)",
        ),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(
    table: str, values: dict[str, float], equal: dict[str, float], message: str
) -> None:
    """In both forms; equal numbers are accepted."""
    assert refusals(with_first(table, **values)) == (message, message)
    same = with_first(table, **equal)
    assert dumps(loads(dumps(same))) == dumps(same)
