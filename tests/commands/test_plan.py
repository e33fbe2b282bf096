"""`merkatd plan`: its output in both forms, and its errors."""

import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from merkatd.cli import main
from merkatd.cluster import Snapshot
from merkatd.cluster.snapshot import view_of_market
from merkatd.cluster.snapshot_json import dumps
from merkatd.cluster.snapshot_npz import to_npz
from merkatd.placement import STRATEGIES, strategy_named
from merkatd.placement.contract import Need
from merkatd.placement.made_up_needs import with_needs
from merkatd.placement.snapshot_needs import unfilled
from tests.clouds import crowded, tangled
from tests.placement.needy_strategy import ALL_NEEDS, needy


@pytest.fixture
def snapshot_file(tmp_path: Path) -> Path:
    """Return the file of a cloud in which VMs need to move."""
    file = tmp_path / "cloud.json"
    file.write_text(dumps(crowded(8, 1)))
    return file


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_plan_is_the_strategys(
    strategy: str, snapshot_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Replaying a snapshot gives the decision that was made from it."""
    assert main(["plan", "--snapshot", str(snapshot_file), "--strategy", strategy, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    decision = strategy_named(strategy).decide(crowded(8, 1))
    assert [step["id"] for step in printed["steps"]] == [step.id for step in decision.plan]
    shares = [[vm["share"]["cpu"], vm["share"]["memory"]] for vm in printed["vms"]]
    assert shares == decision.allocations.tolist()
    assert printed["took_ms"] > 0


def test_a_strategy_from_a_file_decides(
    snapshot_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file without a strategy is refused in a line."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import replace\n"
        "from merkatd.placement import STRATEGIES\n"
        'STRATEGY = replace(STRATEGIES["worst-fit"], name="mine")\n'
    )
    words = ["plan", "--snapshot", str(snapshot_file), "--json", "--strategy"]
    try:
        assert main([*words, str(file)]) == 0
    finally:
        cast("dict[str, Any]", STRATEGIES).pop("mine", None)
    printed = json.loads(capsys.readouterr().out)
    decision = strategy_named("worst-fit").decide(crowded(8, 1))
    assert printed["strategy"] == "mine"
    assert [step["id"] for step in printed["steps"]] == [step.id for step in decision.plan]
    file.write_text("STRATEGY = 3")
    assert main([*words, str(file)]) == 1
    assert "STRATEGY must be a StrategyEntry" in capsys.readouterr().err


@pytest.fixture
def with_needy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register a strategy that reads every part of the snapshot that may be missing."""
    monkeypatch.setitem(cast("dict[str, Any]", STRATEGIES), "needy", needy())


def plan_of(tmp_path: Path, snapshot: Snapshot) -> int:
    """Run `plan` with the strategy that has needs; return the exit code."""
    file = tmp_path / "cloud.json"
    file.write_text(dumps(snapshot))
    return main(["plan", "--snapshot", str(file), "--strategy", "needy", "--json"])


@pytest.mark.usefixtures("with_needy")
def test_a_file_that_has_what_the_strategy_needs_is_decided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the strategy reads is also there when it runs first to be compiled."""
    assert plan_of(tmp_path, with_needs(crowded(8, 1), ALL_NEEDS)) == 0
    assert json.loads(capsys.readouterr().out)["strategy"] == "needy"


@pytest.mark.usefixtures("with_needy")
def test_a_file_that_lacks_what_the_strategy_needs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, also if only another market of the file has it."""
    assert plan_of(tmp_path, crowded(8, 1)) == 1
    error = capsys.readouterr().err
    assert "lacks: domains (MERKAT_NETWORK_DOMAIN or" in error
    assert "topology" in error
    two = with_needs(tangled(4), ALL_NEEDS)
    first = (two.hosts.market == 0)[:, np.newaxis]
    assert (two.hosts.market == 1).any()
    domains = {kind: np.where(first, at, -1) for kind, at in two.hosts.domains.items()}
    part = replace(two, hosts=replace(two.hosts, domains=domains))
    assert not unfilled(part, {Need.DOMAINS})
    assert unfilled(view_of_market(part, 1), {Need.DOMAINS}) == (Need.DOMAINS,)
    assert plan_of(tmp_path, part) == 1
    assert capsys.readouterr().err.count("lacks: domains") == 1


def test_text_shows_steps_prices_errors_and_time(
    snapshot_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has a line for each step with its reason, totals before and after, and worst VMs."""
    assert main(["plan", "--snapshot", str(snapshot_file), "--rows", "3"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"strategy tabu: 0 deploy, 5 migrate; decided in [\d.]+ ms", out)
    step = re.compile(r"^  migrate  VM \d+ host\d -> host\d: .+ \[[0-9a-f]{16}\]$", re.MULTILINE)
    assert len(step.findall(out)) == 5
    assert re.search(r"shortfall, credits +[\d.]+ -> [\d.]+", out)
    assert re.search(r"largest error +[\d.]+ -> [\d.]+", out)
    assert "(77 more VMs; --rows N lists more)" in out


def test_the_compact_form_and_standard_input_are_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pending VMs have reasons, and missing prices are null."""
    stdin = SimpleNamespace(buffer=io.BytesIO(to_npz(tangled(4))))
    monkeypatch.setattr("sys.stdin", stdin)
    assert main(["plan", "--snapshot", "-", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["markets"]) == {"default", "other"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"", "this is not a snapshot, which is a JSON object"),
        (b"\xff\xfe", "neither JSON in UTF-8"),
        (b"PK\x03\x04 nothing", "not a compact snapshot"),
        (b'{"merkat_snapshot": 1}', "resources"),
        (b"1" * 5_000, "this is not a snapshot"),
        (b'{"merkat_snapshot": ' + b"1" * 5_000, "digits"),
    ],
)
def test_a_file_without_a_snapshot_is_an_error(
    content: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error is one line on standard error, with exit code 1."""
    file = tmp_path / "cloud"
    if content is not None:
        file.write_bytes(content)
    assert main(["plan", "--snapshot", str(file)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"merkatd plan: {file}: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [["--csv"], ["plan", "--snapshot", "x", "--strategy", "y"], ["plan", "--rows", "-1"]],
)
def test_wrong_arguments_have_exit_code_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard error has one line with the reason."""
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert "error:" in captured.err
    assert captured.err.count("\n") == 1


def test_a_closed_pipe_ends_the_command_quietly(tmp_path: Path) -> None:
    """`merkatd plan ... | head` prints no error."""
    file = tmp_path / "cloud.json"
    file.write_text(dumps(crowded(200, 1)))
    process = subprocess.Popen(
        [sys.executable, "-m", "merkatd.cli", "plan", "--snapshot", str(file), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 1
    process.stderr.close()
