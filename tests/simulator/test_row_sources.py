"""Stored rows of experiments belong to the sources that computed them."""

import json
import textwrap
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from merkatd.cli import main
from simulator.experiments import EXPERIMENTS
from simulator.experiments.experiment import (
    Experiment,
    ExperimentOptions,
    ExperimentReport,
    Row,
    Rows,
    Task,
)
from simulator.row_sources import fingerprint_of, sources
from simulator.sweep import ClusterError, outdated, stored, sweep

OPTIONS = ExperimentOptions(seeds=2)
RAN: list[str] = []


def tasks(options: ExperimentOptions) -> Sequence[Task]:
    """Return a task for each seed."""
    return [Task("one", 1.0, seed) for seed in range(options.seeds)]


def measure(task: Task, options: ExperimentOptions) -> Row:
    """Return the seed."""
    RAN.append(task.key)
    return {"seed": float(task.seed), "quick": float(options.quick)}


def report(rows: Rows, _options: ExperimentOptions) -> ExperimentReport:
    """Return the number of rows."""
    return ExperimentReport((), (), notes=(f"{len(rows)} rows",))


EXPERIMENT = Experiment("seeds", "", tasks, measure, report)


def run_sweep(file: Path) -> Rows:
    """Run the missing tasks in a thread."""
    with ThreadPoolExecutor(1) as pool:
        return sweep(EXPERIMENT, OPTIONS, file, pool)


def change_sources(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let this process have other sources."""
    monkeypatch.setattr("simulator.sweep.fingerprint", lambda _measure: code)


def written(folder: Path, files: Mapping[str, str]) -> str:
    """Write a package; return the fingerprint of its module `rows`."""
    for name, text in files.items():
        path = folder / "sources_of_test" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    fingerprint_of.cache_clear()
    return fingerprint_of("sources_of_test.rows")


FILES = {
    "__init__.py": "from sources_of_test import unused\n",
    "rows.py": """\
        from sources_of_test import direct
        from sources_of_test.inner import NAME

        def measure():
            import sources_of_test.late
        """,
    "direct.py": "from . import relative\n",
    "relative.py": "",
    "late.py": "from merkatd.market.share import share\n",
    "inner/__init__.py": "from sources_of_test.inner.names import NAME\n",
    "inner/names.py": "NAME = 1\n",
    "unused.py": "",
}


def test_a_fingerprint_changes_with_each_module_that_rows_depend_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules that only the package imports do not count."""
    monkeypatch.syspath_prepend(str(tmp_path))
    first = written(tmp_path, FILES)
    for name, text in FILES.items():
        changed = written(tmp_path, {name: text + "# other\n"})
        depends = name not in {"__init__.py", "unused.py"}
        assert (changed != first) is depends, name
        assert written(tmp_path, FILES) == first
    found = sources("sources_of_test.rows")
    assert {"merkatd.market.share", "merkatd.cluster.columns"} <= found.keys()
    assert "merkatd.market.price" not in found


def test_a_figure_depends_on_the_market_and_not_on_other_figures() -> None:
    """Figure 13 runs the daemon's strategies, under the placement of orders too."""
    found = sources(EXPERIMENTS["figure-13"].measure.__module__)
    assert {"merkatd.placement.tabu.tabu", "simulator.baselines.edf"} <= found.keys()
    assert "simulator.experiments.figure_03" not in found


def test_rows_of_other_sources_are_neither_reported_nor_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are computed again, and are there again when their sources are."""
    file = tmp_path / "rows.jsonl"
    RAN.clear()
    before = run_sweep(file)
    change_sources(monkeypatch, "new")
    assert stored(EXPERIMENT, OPTIONS, file) == {}
    assert outdated(EXPERIMENT, OPTIONS, file) == list(tasks(OPTIONS))
    assert run_sweep(file) == before
    assert len(RAN) == 4
    assert outdated(EXPERIMENT, OPTIONS, file) == []
    monkeypatch.undo()
    assert stored(EXPERIMENT, OPTIONS, file) == before
    assert run_sweep(file) == before
    assert len(RAN) == 4


def test_rows_without_a_fingerprint_are_of_other_sources(tmp_path: Path) -> None:
    """Earlier versions wrote them."""
    file = tmp_path / "rows.jsonl"
    run_sweep(file)
    heading, *lines = file.read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    old = [json.dumps({"task": each["task"], "row": each["row"]}) for each in entries]
    file.write_text("\n".join([heading, *old]) + "\n")
    assert stored(EXPERIMENT, OPTIONS, file) == {}
    assert outdated(EXPERIMENT, OPTIONS, file) == list(tasks(OPTIONS))


def test_the_command_says_which_rows_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the first, and what to run."""
    monkeypatch.setitem(EXPERIMENTS, "seeds", EXPERIMENT)
    file = tmp_path / "seeds/rows.jsonl"
    run_sweep(file)
    wanted = ["experiment", "report", "seeds", "--seeds", "2", "--output", str(tmp_path)]
    assert main(wanted) == 0
    assert "other sources" not in capsys.readouterr().err
    change_sources(monkeypatch, "new")
    assert main(wanted) == 1
    assert capsys.readouterr().err.startswith(
        f"merkatd: {file} has rows that other sources of Merkat (or another numpy or scipy)"
        " computed. They are left out; `experiment run` computes them again: one/1/0, one/1/1\n"
    )


def test_a_worker_with_other_sources_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are not stored."""
    codes = iter(["here", "there"])
    monkeypatch.setattr("simulator.sweep.fingerprint", lambda _measure: next(codes, "there"))
    with pytest.raises(ClusterError, match="fingerprint there, here here"):
        run_sweep(tmp_path / "rows.jsonl")
    monkeypatch.undo()
    assert stored(EXPERIMENT, OPTIONS, tmp_path / "rows.jsonl") == {}
    assert outdated(EXPERIMENT, OPTIONS, tmp_path / "rows.jsonl") == []
