"""All rows of an experiment, as they came from the runs."""

import csv
from pathlib import Path

from simulator.experiments.experiment import Rows


def write_csv(rows: Rows, path: Path) -> None:
    """One line a run; what a system has no number for stays empty."""
    names = list(dict.fromkeys(name for row in rows.values() for name in row))
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["system", "level", "seed", *names])
        for task, row in rows.items():
            values = [row.get(name, "") for name in names]
            lines.writerow([task.system, f"{task.level:g}", task.seed, *values])
