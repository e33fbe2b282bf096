"""A first observation of a running cloud, before any period and any account."""

from collections.abc import Iterator

import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.database.ledger import account_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.service.reports.dry_runs import dry_run
from tests.scheduler.frontend import Frontend


@pytest.fixture
def living() -> Iterator[Frontend]:
    """Return two VMs running on one host, a waiting VM and a new daemon."""
    frontend = Frontend()
    for _ in range(2):
        frontend.bench.ok("one.vm.deploy", frontend.vm(VCPU=4), 0)
    frontend.clock.advance(60)
    frontend.vm()
    yield frontend
    frontend.close()


def test_a_plan_can_be_shown_before_the_first_period(living: Frontend) -> None:
    """The plan covers running VMs too; no call is sent and nothing is stored."""
    plan = living.result(ensureDeferred(dry_run(living.scheduler.world)))
    assert [row.step.kind for row in plan.steps if row.step.kind == "deploy"] == ["deploy"]
    assert living.state(2) == "PENDING"
    assert living.read(lambda c: account_store.every(c, AccountKind.TENANT)) == ()
    first = living.period()
    assert {step.vm for step in first.decided.steps} >= {2}
