"""A VM that must end is not started, and scarce capacity is decided in few rounds."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from merkatd.cluster import Decision, Deploy, Plan, Snapshot, Terminate, VmState
from merkatd.database.scheduler import journal
from merkatd.scheduler.phases.scarcity import MOST_ROUNDS, vms_left_out, within_capacity
from tests.clouds import cloud, hosts_table, vms_table
from tests.scheduler.frontend import Frontend

NONE_LEFT = "no device is left"


def test_a_vm_that_must_end_is_not_started_first() -> None:
    """Its group is deleted while it waits: its end is the only step of the plan."""

    async def proposals(_database: Any, seen: Any) -> Sequence[Terminate]:
        return [Terminate(period=seen.period, vm=0, reason="its group is deleted")]

    frontend = Frontend(proposals=proposals)
    vms = [frontend.vm() for _ in range(2)]
    latest = frontend.period()
    kinds = {vm: [s.kind for s in latest.decided.steps if s.vm == vm] for vm in vms}
    assert kinds[0] == ["terminate"]
    assert kinds[1][0] == "deploy"
    frontend.clock.advance(60)
    assert frontend.state(0) == "DONE"
    history = frontend.read(lambda c: journal.history(c, 0))
    assert [row.step.kind for row in history] == ["terminate"]
    frontend.close()


class _First:
    """Stock that is empty for the VM with the lowest id in each round."""

    def __init__(self) -> None:
        self._asked = False

    def take(self, vm: int, host: int) -> str | None:
        """Refuse the first request."""
        del vm, host
        first, self._asked = not self._asked, True
        return NONE_LEFT if first else None

    def why_never(
        self, gangs: Sequence[Collection[int]], _hosts: Collection[int]
    ) -> list[str | None]:
        """Return no reason: each VM alone could start."""
        return [None] * len(gangs)


def _deploy_all(snapshot: Snapshot) -> Decision:
    waits = snapshot.vms.id[snapshot.vms.state == VmState.PENDING].tolist()
    steps = [Deploy(period=1, vm=vm, host=0, reason="") for vm in waits]
    return Decision(Plan(tuple(steps)), np.zeros((60, 2)), np.zeros((1, 2)), {})


def test_scarce_capacity_is_decided_in_few_rounds() -> None:
    """This holds for many refused VMs; none gets capacity that is missing."""
    snapshot = cloud(
        hosts_table(np.full((1, 2), 1e4)),
        vms_table(np.full(60, -1), np.ones((60, 2)), np.ones((60, 2)), owner=np.arange(60)),
    )
    rounds: list[Snapshot] = []

    def decide(snapshot: Snapshot) -> Decision:
        rounds.append(snapshot)
        assert len(rounds) <= MOST_ROUNDS + 1
        return _deploy_all(snapshot)

    decision = within_capacity(snapshot, decide, _First)
    placed = {step.vm for step in decision.plan}
    late = set(decision.reasons)
    assert set(decision.reasons.values()) == {NONE_LEFT}
    assert placed.isdisjoint(late)
    assert placed | late == set(range(60))
    assert len(rounds) == MOST_ROUNDS + 1
    assert vms_left_out(snapshot, Plan(), _First()) == {}
