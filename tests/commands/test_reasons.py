"""Reasons are reasons: messages about credits, surplus and other markets are none."""

import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from merkatd.api.values.plan_rows import plan_row
from merkatd.cluster import Decision, Plan, VmState
from merkatd.commands.texts.plan_text import plan_lines
from merkatd.currency.settings import MoneySettings
from merkatd.service.market.listings import displayed_errors
from merkatd.service.market.plans import PlanCosts, preview_of
from tests.clouds import cloud, hosts_table, vms_table
from tests.commands.asking import Daemon, Shell

POOR = MoneySettings(supply=1e6, starting_credits=30.0, renewal_s=1e9)
OF_CREDITS = "credits last for less than"


@pytest.fixture
def poor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """Yield a daemon whose tenant has credits for a few periods: one VM runs, one is too large."""
    daemon = Daemon(hosts=1)
    frontend = daemon.frontend
    frontend.scheduler.adopt(replace(frontend.scheduler.world, money=POOR))
    ann = frontend.user("ann")
    frontend.vm(2.0, owner=ann, NAME="runs", MERKAT_BID_MEMORY=0)
    frontend.vm(2.0, owner=frontend.user("bob"), NAME="rival", MERKAT_BID_MEMORY=0, VCPU=4)
    daemon.period(3)
    frontend.vm(2.0, owner=ann, NAME="large", MEMORY=90_000, MERKAT_MIN_MEMORY=90_000)
    daemon.period(2)
    monkeypatch.setattr("merkatd.commands.socket_door.ask", daemon.ask)
    yield daemon
    frontend.close()


def test_a_message_about_credits_is_no_reason(poor: Daemon, shell: Shell) -> None:
    """The VM's owner is told, but no screen says that the VM waits or lacks CPU because of it."""
    latest = poor.frontend.scheduler.latest
    assert latest is not None
    decided = latest.decided
    by_name = dict(zip(latest.seen.snapshot.vms.name, latest.seen.snapshot.vms.id, strict=True))
    runs, large = int(by_name["runs"]), int(by_name["large"])
    told = poor.frontend.bench.vm(runs).user_template
    assert OF_CREDITS in str(told)
    assert OF_CREDITS in decided.messages[runs]
    assert not any("credits" in reason for reason in decided.decision.reasons.values())
    page = shell.ok("explain runs").out
    assert page.count(OF_CREDITS) == 1
    assert f"Message      {OF_CREDITS}" in page
    assert page.count("why not more: ") == 2
    waiting = shell.ok("explain large").out
    assert "credits" not in waiting.partition("State")[0]
    assert "waits for a host: " in waiting
    assert large not in decided.messages


def test_a_plan_lists_only_waiting_vms_as_pending(poor: Daemon, shell: Shell) -> None:
    """Messages about credits have lines of their own."""
    lines = shell.ok("plan").out.splitlines()
    pending = [line for line in lines if line.strip().startswith("pending")]
    assert [line.split()[2] for line in pending] == ["2:"]
    assert any(line.strip().startswith("message  VM 0: ") for line in lines)
    assert poor.answer("plan")["messages"].keys() == {"0", "1"}


def test_a_reason_of_a_running_vm_is_a_note() -> None:
    """Such as that its memory can't be taken back now."""
    vms = vms_table(np.array([0, -1]), np.ones((2, 1)), np.ones((2, 1)))
    vms = replace(vms, state=np.array([int(VmState.RUNNING), int(VmState.PENDING)]))
    snapshot = cloud(hosts_table(np.full((1, 1), 400.0)), vms)
    decision = Decision(
        plan=Plan(), allocations=np.zeros((2, 1)), prices=np.zeros((1, 1)), reasons={}
    )
    nothing = np.zeros(2)
    first, second = snapshot.vms.id.tolist()
    reasons = {first: "its guest keeps memory", second: "no host has room"}
    costs = PlanCosts(nothing, nothing)
    preview = preview_of(snapshot, decision, decision.plan, "tabu", 1.0, reasons, costs)
    lines = "\n".join(plan_lines(plan_row(preview), 0, None))
    assert f"note     VM {first}: its guest keeps memory" in lines
    assert f"pending  VM {second}: no host has room" in lines


@pytest.mark.usefixtures("poor")
def test_a_vm_with_all_that_it_can_use_has_no_error(shell: Shell) -> None:
    """Also if it would get less of a market that is one host: a surplus is nothing wrong."""
    first, given = np.array([[67.0, 50.0], [67.0, 50.0]]), np.array([[100.0, 50.0], [60.0, 75.0]])
    errors = displayed_errors(first, given, np.array([[100.0, 50.0], [100.0, 100.0]]))
    assert errors.tolist() == [[0.0, 0.0], [7 / 67, 0.5]]
    for row in json.loads(shell.ok("list vms --json").out):
        has_all = all(row[good] >= row[f"cap_{good}"] for good in ("cpu", "memory"))
        assert not (has_all and row["error"])


def test_explain_names_floor_and_cap_once(poor: Daemon, shell: Shell) -> None:
    """The table has what they add and cut off, under other names than their values."""
    page = shell.ok("explain runs").out
    heading = next(line for line in page.splitlines() if line.startswith("RESOURCE"))
    assert {"BY_FLOOR", "BY_CAP"} <= set(heading.split())
    assert not {"FLOOR", "CAP"} & set(heading.split())
    assert page.count("cpu: floor ") == 1
    csv = shell.ok("explain runs --csv -l RESOURCE,FLOOR,CAP").out.splitlines()
    answer = poor.answer("explain", vm="runs")["resources"][0]
    assert list(map(float, csv[1].split(",")[1:])) == [answer["least"], answer["most"]]
