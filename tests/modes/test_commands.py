"""The commands about modes, and the warning of every other command in a mode that does not act."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from merkatd.database.scheduler import plan_store
from merkatd.database.scheduler.order_store import Mode
from merkatd.database.scheduler.plan_store import ProposedStep
from tests.commands.asking import Daemon, Shell


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """Return a daemon with two hosts and two pending VMs; commands ask it."""
    made = Daemon()
    monkeypatch.setattr("merkatd.commands.socket_door.ask", made.ask)
    for name in ("web", "db"):
        made.frontend.vm(NAME=name)
    yield made
    made.frontend.close()


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Return a shell whose output goes into a pipe."""
    monkeypatch.delenv("COLUMNS", raising=False)
    return Shell(capsys)


def test_the_mode_is_shown_changed_and_restored(daemon: Daemon, shell: Shell) -> None:
    """The output says what the mode does."""
    assert shell.ok("mode").out == "The mode is on: all decisions are carried out.\n"
    assert "The mode is ask: VMs are placed" in shell.ok("mode ask").out
    lines = shell.ok("mode ask").lines
    assert lines[0].startswith("The mode is ask already")
    assert lines[1].startswith("It was set by an order; the configuration says on")
    assert shell.ok("mode configured").lines[0].startswith("The mode is on")
    assert "expected one of" in shell.refused("mode off", 2)
    daemon.period()


ASKING = ("status", "list vms", "list hosts", "price", "log", "plan", "explain web", "limits")


@pytest.mark.parametrize("mode", [Mode.DRY, Mode.SHADOW])
def test_every_command_warns_that_decisions_are_not_carried_out(
    mode: Mode, daemon: Daemon, shell: Shell
) -> None:
    """The warning goes to stderr; the rows on stdout stay valid."""
    shell("mode", str(mode))
    daemon.period(2)
    for words in ASKING:
        result = shell(*words.split())
        assert result.code == 0, result
        assert f"merkatd: mode {mode}: decisions are " in result.err
        assert result.err.endswith("not carried out\n")
        assert "not carried out" not in shell(*words.split(), "--json").out


def test_the_live_view_shows_the_mode(daemon: Daemon, shell: Shell) -> None:
    """It is in the first line."""
    shell("mode", "dry")
    daemon.period()
    assert "MODE DRY" in shell("top", "--once").out


def test_a_plan_is_shown_and_approved(daemon: Daemon, shell: Shell) -> None:
    """The plan is shown before the approval and afterwards with its outcome."""
    assert "there is no plan yet; only the mode ask makes plans" in shell.refused("plan show")
    shell("mode", "ask")
    daemon.period()
    result = shell("plan", "show")
    assert result.err == "merkatd: mode ask: plan 1 waits (`merkatd plan show`)\n"
    assert result.lines[0] == "Plan 1 of period 1 is waiting"
    assert [line.split()[:4] for line in result.lines[2:]] == [
        ["1", "deploy", "0", "web"],
        ["2", "deploy", "1", "db"],
        ["Market", "default:", "shortfall", "0"],
    ]
    assert "COST" in result.lines[1]
    assert "plan 7 is no longer current" in shell.refused("plan approve --plan 7")
    assert "--skip" in shell.refused("plan refuse --skip 1")
    approved = shell.ok("plan approve --plan 1 --skip 2").out
    assert "1 of 2 steps" in approved
    daemon.period(3)
    assert daemon.frontend.state(0) == "RUNNING"
    assert daemon.frontend.state(1) == "PENDING"
    assert "is done, answered by" in shell.ok("plan show").lines[0]
    assert shell.ok("plan show -l NUMBER,SKIPPED,BECAME --csv --no-header").lines == [
        "1,false,confirmed",
        "2,true,",
    ]


def test_a_step_on_a_host_names_the_host(daemon: Daemon, shell: Shell) -> None:
    """It has no VM, neither in the table nor in the answer to an approval."""
    shell("mode", "ask")
    daemon.period()
    steps = [
        ProposedStep(kind="sleep", vm=-1, host=1, reason="to save power at night"),
        ProposedStep(kind="deploy", vm=0, host=0, reason="it has the most room"),
    ]
    daemon.frontend.read(lambda connection: plan_store.put(connection, 1, steps, 0.0))
    rows = shell("plan", "show", "-l", "KIND,VM,HOST", "--csv", "--no-header").lines
    assert rows == ["sleep,,host001", "deploy,0,host000"]
    text = shell("plan", "show").out
    assert "-1" not in text
    approved = shell("plan", "approve").lines
    assert [line.split(maxsplit=1)[1] for line in approved[1:]] == [
        "sleep host host001",
        "deploy VM 0 to host000",
    ]


def test_a_refused_plan_stays_refused(daemon: Daemon, shell: Shell) -> None:
    """It is still refused two periods later."""
    shell("mode", "ask")
    daemon.period()
    assert "Plan 1 is refused" in shell.ok("plan refuse").out
    daemon.period(2)
    assert "is refused" in shell.ok("plan show").lines[0]


def test_differences_are_shown(daemon: Daemon, shell: Shell) -> None:
    """The output has a summary, the share of equal placements, and a row a VM."""
    assert "No other scheduler placed a VM" in shell.ok("shadow").out
    shell("mode", "shadow")
    daemon.period()
    for vm in (0, 1):
        daemon.frontend.bench.ok("one.vm.deploy", vm, 1)
    daemon.period()
    result = shell("shadow")
    assert result.lines[0] == "Another scheduler placed 2 VMs, 1 (50 %) on Merkat's own choice."
    assert "Merkat would move" in result.lines[1]
    assert len(result.lines) == 5
    rows = shell("shadow", "-l", "NAME,THEIRS,SAME", "--csv", "--no-header").lines
    assert sorted(rows) == ["db,host001,true", "web,host001,false"]
    daemon.frontend.bench.ok("one.vm.migrate", 0, 0, True, False, -1, 0)
    daemon.period()
    daemon.period()
    assert any(line.startswith("Other schedulers moved 1 VMs") for line in shell("shadow").lines)
    rows = shell("shadow", "-l", "FROM,THEIRS", "--csv", "--no-header", "--limit", "1").lines
    assert rows == ["host001,host000"]


def test_a_command_succeeds_without_an_answer_about_the_mode(
    daemon: Daemon, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon may end between the first answer and the second."""

    def ask(path: Path, question: str, arguments: object = None) -> object:
        if question == "mode":
            raise OSError("gone")
        return daemon.ask(path, question, arguments)  # type: ignore[arg-type]

    daemon.period()
    monkeypatch.setattr("merkatd.commands.socket_door.ask", ask)
    assert shell.ok("list hosts").lines
