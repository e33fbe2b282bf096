"""Users removed from OpenNebula: a second look confirms the removal, then they are retired."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import sqlalchemy as sa
from twisted.internet.defer import ensureDeferred
from twisted.logger import capturedLogs, formatEvent

from merkatd import ledger
from merkatd.currency.settings import MoneySettings
from merkatd.database import Database
from merkatd.database.fleets import group_store as stored_groups
from merkatd.database.ledger import note_store
from merkatd.database.ledger.note_store import NoteKind
from merkatd.groups import group_orders as groups
from merkatd.groups.group_orders import Creation
from merkatd.opennebula.pools.removed_user_check import missing_users
from merkatd.platforms import tenant_orders as platforms
from merkatd.platforms.lifecycle.template_reader import parsed
from merkatd.platforms.tenant_orders import Submission
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.scheduler.base.troubles import TroubleKind
from merkatd.scheduler.removed_users import CERTAIN_S
from tests.scheduler.frontend import PAPER_MARKET, Frontend

MONEY = MoneySettings(supply=0.0, starting_credits=100.0)
PLATFORM = """
[platform]
name = "p"

[budget]
credits = 10

[cluster.main]
template = "CPU=1 MEMORY=64"
vms = 1
"""


@pytest.fixture
def made() -> Iterator[Frontend]:
    """Return a frontend with money that ends platforms and groups of removed users."""
    endings = (platforms.end_of_removed, groups.end_of_removed)
    frontend = Frontend(money=MONEY, endings=endings, markets=(PAPER_MARKET,))
    asks = partial(missing_users, frontend.client)
    frontend.scheduler.adopt(replace(frontend.scheduler.world, missing_users=asks))
    yield frontend
    frontend.close()


def make_tenants(frontend: Frontend, *names: str) -> list[int]:
    """Return tenants whose only VMs have ended."""
    vms = [frontend.vm(owner=frontend.user(name)) for name in names]
    frontend.periods(2)
    for vm in vms:
        frontend.bench.ok("one.vm.action", "terminate-hard", vm)
    frontend.clock.advance(30)
    return [int(frontend.bench.vm(vm).uid) for vm in vms]


def make_tenant(frontend: Frontend, name: str) -> int:
    """Return a tenant whose only VM has ended."""
    return make_tenants(frontend, name)[0]


def standing(frontend: Frontend, owner: int) -> ledger.TenantAccount:
    """Return the tenant's account."""
    return frontend.read(lambda c: ledger.tenant(c, owner))  # type: ignore[no-any-return]


def remove(frontend: Frontend, owner: int) -> None:
    """Remove the user as an administrator does."""
    frontend.bench.ok("one.user.delete", owner)


def test_a_retirement_without_a_reply_is_reported_once(
    made: Frontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the reply to its commit is lost, the transaction runs again."""
    run = Database.run

    async def run_twice(self: Database, work: Any) -> Any:
        await run(self, work)
        return await run(self, work)

    owner = make_tenant(made, "ann")
    made.periods(2)
    remove(made, owner)
    made.periods(1)
    monkeypatch.setattr(Database, "run", run_twice)
    made.periods(2)
    (note,) = made.read(lambda c: note_store.recent(c, kind=NoteKind.RETIREMENT))
    assert "retired, 0.000000 credits" not in note.text
    assert made.scheduler.removed.retired == {owner: note.text}
    assert made.scheduler.removed.count == 1


def test_after_two_looks_the_treasury_gets_the_credits(made: Frontend) -> None:
    """The supply excludes them; the log, the notes and the metrics report the removal."""
    owner, other = make_tenants(made, "ann", "bob")
    made.periods(2)
    supply = made.read(ledger.supply_of)
    remove(made, owner)
    made.periods(1)
    assert standing(made, owner).retired_s is None
    with capturedLogs() as logged:
        made.periods(2)
    assert any(f"Tenant {owner} (ann): OpenNebula has removed" in formatEvent(e) for e in logged)
    assert standing(made, owner).retired_s is not None
    assert standing(made, owner).holdings == 0
    assert standing(made, other).holdings > 0
    assert made.read(ledger.supply_of) == supply - 100 * ledger.MICRO
    assert made.scheduler.removed.count == 1
    (note,) = made.read(lambda c: note_store.recent(c, kind=NoteKind.RETIREMENT))
    assert "went to the treasury" in note.text
    made.periods(3)
    assert made.scheduler.removed.count == 1
    made.agree()


def test_an_error_or_an_unread_pool_removes_no_user(made: Frontend) -> None:
    """A user that can't be read, or is shown by its id, is not removed."""
    owner = make_tenant(made, "ann")
    real = made.scheduler.world.missing_users

    async def fails(_users: Collection[int]) -> frozenset[int]:
        raise CloudUnreachableError("it hangs")

    async def exists(_users: Collection[int]) -> frozenset[int]:
        return frozenset()

    remove(made, owner)
    for answer in (fails, exists):
        made.scheduler.adopt(replace(made.scheduler.world, missing_users=answer))
        made.periods(3)
        assert standing(made, owner).retired_s is None
    made.scheduler.adopt(replace(made.scheduler.world, missing_users=real))
    made.periods(1)
    made.scheduler.adopt(replace(made.scheduler.world, missing_users=fails))
    made.periods(1)
    made.scheduler.adopt(replace(made.scheduler.world, missing_users=real))
    made.periods(1)
    assert standing(made, owner).retired_s is None, (
        "a failed look must not count as one of two in a row"
    )
    made.periods(1)
    assert standing(made, owner).retired_s is not None


def test_a_removed_user_whose_end_fails_delays_no_other(made: Frontend) -> None:
    """The period continues, and the daemon reports why the user waits."""
    first, second = make_tenants(made, "ann", "bob")
    fails = [True]

    def ending(_connection: sa.Connection, owner: int, _at_s: float) -> str | None:
        if owner == first and fails[0]:
            raise ZeroDivisionError("nothing to divide by")
        return None

    made.scheduler.adopt(replace(made.scheduler.world, endings=(ending,)))
    for owner in (first, second):
        remove(made, owner)
    made.periods(4)
    assert standing(made, second).retired_s is not None
    assert standing(made, first).retired_s is None
    assert "the log shows why that failed" in made.scheduler.removed.waiting[first]
    assert "nothing to divide by" in made.scheduler.world.troubles.of(TroubleKind.TENANT)[first]
    fails[0] = False
    made.periods(2)
    assert standing(made, first).retired_s is not None


def test_the_removal_of_most_users_counts_only_after_a_day(made: Frontend) -> None:
    """It may be a restored or foreign OpenNebula: credits and platforms stay."""
    owners = make_tenants(made, *(f"user{number}" for number in range(5)))
    made.measure_hourly()
    for owner in owners[:4]:
        remove(made, owner)
    with capturedLogs() as logged:
        made.periods(4)
    assert [standing(made, owner).retired_s for owner in owners] == [None] * 5
    assert set(made.scheduler.removed.waiting) == set(owners[:4])
    assert "check that this is the same OpenNebula" in made.scheduler.removed.waiting[owners[0]]
    warnings = [
        event for event in logged if "users of 4 of 5 tenants are missing" in formatEvent(event)
    ]
    assert len(warnings) == 1
    made.clock.advance(CERTAIN_S)
    made.scheduler.removed.forget()
    made.periods(3)
    assert standing(made, owners[0]).retired_s is None, "another daemon acted meanwhile"
    made.clock.advance(CERTAIN_S)
    made.periods(3)
    assert all(standing(made, owner).retired_s is not None for owner in owners[:4])
    assert standing(made, owners[4]).retired_s is None


def test_only_error_1024_means_that_a_user_is_missing(made: Frontend) -> None:
    """A refusal doesn't."""
    stranger = made.user("eve")
    client = type(made.client)(made.transport, stranger, made.clock)
    asked = made.result(ensureDeferred(missing_users(client, [0, 987])))
    assert asked == {987}


def test_platforms_and_groups_end_first(made: Frontend) -> None:
    """The tenant is retired after they have ended."""
    owner = make_tenant(made, "ann")
    given = Submission(
        token="t",  # noqa: S106 - no password
        owner=owner,
        text=PLATFORM,
        template=parsed(PLATFORM),
        vm_templates={},
        who="ann",
    )
    made.read(lambda c: platforms.submit(c, given, MONEY, 1.0))
    creation = Creation(
        token="g",  # noqa: S106 - no password
        owner=owner,
        user_group=1,
        name="g",
        market="default",
        template="CPU=1",
        spending_rate=1.0,
        nvm=1,
    )
    group = made.read(lambda c: groups.create(c, creation, MONEY, 1.0))
    remove(made, owner)
    made.periods(3)
    assert made.scheduler.removed.waiting == {owner: f"its groups ({group.id}) have ended"}
    made.read(lambda c: stored_groups.change(c, group.id, ended_s=1.0))
    made.periods(1)
    assert standing(made, owner).retired_s is not None
    assert standing(made, owner).holdings == 0


def test_a_new_user_of_the_same_name_is_a_new_tenant(made: Frontend) -> None:
    """It has another id and gets the starting credits."""
    owner = make_tenant(made, "ann")
    remove(made, owner)
    made.periods(3)
    again = make_tenant(made, "ann")
    assert again != owner
    assert standing(made, again).holdings > 99 * ledger.MICRO
    assert standing(made, owner).holdings == 0
    with pytest.raises(ledger.LedgerError, match="retired: OpenNebula has removed its user"):
        made.read(lambda c: ledger.grant(c, owner, 1, "x", "test", 0.0))
    made.agree()


def test_a_late_refund_goes_to_the_treasury(made: Frontend) -> None:
    """It refunds a period that a retired tenant paid for."""
    made.vm(owner=made.user("bob"))
    owner = make_tenant(made, "ann")
    made.periods(4)
    remove(made, owner)
    made.periods(3)
    assert standing(made, owner).retired_s is not None
    given = made.read(lambda c: sum(ledger.void_period(c, n, "test", "test", 1.0) for n in (2,)))
    assert given > 0
    assert standing(made, owner).holdings > 0
    made.periods(1)
    assert standing(made, owner).holdings == 0
    made.agree()


def test_two_looks_within_moments_are_one(made: Frontend) -> None:
    """OpenNebula may answer wrongly for some seconds; the second look is an interval later."""
    owner, _ = make_tenants(made, "ann", "bob")
    made.periods(2)
    remove(made, owner)
    made.periods(20, 1.0)
    assert standing(made, owner).retired_s is None
    made.clock.advance(60.0)
    made.periods(3, 1.0)
    assert standing(made, owner).retired_s is not None
