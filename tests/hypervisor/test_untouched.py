"""Hosts without limits: the market continues, and hosts get no steps."""

from collections.abc import Iterator

import pytest

from merkatd.hypervisor import UntouchedHypervisors
from tests.scheduler.frontend import Frontend


@pytest.fixture
def frontend() -> Iterator[Frontend]:
    """Yield a cloud whose guests keep OpenNebula's own shares."""
    made = Frontend(hypervisors=UntouchedHypervisors())
    yield made
    made.close()


def test_vms_are_placed_and_charged_without_limits(frontend: Frontend) -> None:
    """In each period VMs are placed and charged, and no limits are set, also with contention."""
    ann = frontend.user("ann")
    vms = [frontend.vm(1.0 + at, owner=ann, VCPU=4) for at in range(6)]
    first = frontend.period()
    assert [step.kind for step in first.decided.limits.plan] == ["deploy"] * len(vms)
    frontend.clock.advance(60)
    frontend.periods(1)
    before = [frontend.limits(vm) for vm in vms]
    latest = frontend.periods(3)
    assert {frontend.state(vm) for vm in vms} == {"RUNNING"}
    assert [frontend.limits(vm) for vm in vms] == before
    assert list(latest.decided.limits.plan) == list(latest.decided.decision.plan)
    owner = frontend.bench.vm(vms[0]).uid
    assert frontend.balances()[owner] < latest.seen.snapshot.now_s
    frontend.agree()
