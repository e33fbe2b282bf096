"""Retention deletes old rows, keeps needed ones, and loses no credits."""

from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa

from merkatd.cluster import Suspend
from merkatd.database.fleets import group_store, platform_store
from merkatd.database.fleets.fleet_store import MEMBERS, PLATFORM_VMS, PlatformMember
from merkatd.database.fleets.group_store import VM_GROUPS, GroupRow
from merkatd.database.fleets.group_vm_store import GROUP_MEMBERS, GROUP_VMS, GroupMember
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.database.ledger import account_store, entry_store
from merkatd.database.ledger.account_store import ACCOUNTS, AccountKind
from merkatd.database.ledger.entry_store import TRANSACTIONS, Posting, TransactionKind, audit
from merkatd.database.migrations import METADATA
from merkatd.database.retention import KEPT, Horizon, delete_old_rows
from merkatd.database.scheduler import comparison_store, journal, price_store
from merkatd.database.scheduler.period_store import PERIODS
from merkatd.database.scheduler.step_store import STEPS
from merkatd.ledger import (
    MoneySettings,
    Month,
    end_application,
    open_application,
    open_tenant,
    statement,
)
from tests.database.begun import begin_periods

LATE = Horizon(10**6, 1e12, 1e12)
DOC = Path(__file__).resolve().parents[2] / "docs" / "administrator.md"


def test_every_table_has_a_retention_rule() -> None:
    """Code and administrator's page list each table; a missing one would only grow."""
    assert set(KEPT) == set(METADATA.tables)
    page = DOC.read_text()
    assert [name for name in KEPT if f"`{name}`" not in page] == []


def add_platform(connection: sa.Connection, state: str, since_s: float, account: int | None) -> int:
    """Return the id of a platform that entered its state at the given time."""
    return platform_store.add(
        connection,
        PlatformRow(
            token=f"{state}{since_s}",
            owner=2,
            name="a",
            account=account,
            template="",
            vm_templates={},
            state=state,
            submitted_s=0.0,
            since_s=since_s,
            deadline_s=None,
            sizes={},
        ),
    ).id


def test_an_ended_platform_is_deleted_with_its_vms_and_account(
    connection: sa.Connection,
) -> None:
    """The ledger is sound afterwards, and the tenant keeps its credits."""
    money = MoneySettings(supply=1_000)
    tenant = open_tenant(connection, 2, money, 0.0)
    application = open_application(connection, 2, "a", 5_000_000, 0, 0.0)
    open_tenant(connection, 3, money, 0.0)
    end_application(connection, application.application, 10.0)
    ended = add_platform(connection, "done", 20.0, application.application)
    living = add_platform(connection, "running", 20.0, None)
    for number, (group, gone_s) in enumerate([(ended, 15.0), (living, 15.0), (living, None)], 1):
        member = PlatformMember(
            key=f"k{number}", platform=group, cluster="c", number=number, gone_s=gone_s
        )
        PLATFORM_VMS.add(connection, [member])
    before = account_store.get(connection, [tenant.id])[tenant.id].balance
    while delete_old_rows(connection, LATE, most=2):
        pass
    assert platform_store.get(connection, ended) is None
    assert platform_store.get(connection, living) is not None
    assert list(connection.scalars(sa.select(MEMBERS.c.create_key))) == ["k3"]
    kinds = set(connection.scalars(sa.select(ACCOUNTS.c.kind)))
    assert AccountKind.APPLICATION not in kinds
    assert account_store.get(connection, [tenant.id])[tenant.id].balance == before
    assert audit(connection).sound


def test_a_platform_that_never_had_a_vm_is_deleted_early(connection: sa.Connection) -> None:
    """Tenants can create thousands of them for free, so they are kept as long as details."""
    unused, used, late, _newest = (
        add_platform(connection, "done", since_s, None) for since_s in (20.0, 21.0, 40.0, 22.0)
    )
    member = PlatformMember(key="k", platform=used, cluster="c", number=1, gone_s=5.0)
    PLATFORM_VMS.add(connection, [member])
    delete_old_rows(connection, Horizon(0, 30.0, 10.0))
    assert platform_store.get(connection, unused) is None
    assert platform_store.get(connection, used) is not None
    assert platform_store.get(connection, late) is not None


def make_group(token: str, ended_s: float | None = None) -> GroupRow:
    """Return a group of VMs."""
    return GroupRow(
        token=token,
        name="g",
        owner=2,
        user_group=1,
        permissions=0o600,
        market="groups",
        template="",
        spending_rate=1.0,
        nvm=0,
        created_s=0.0,
        ended_s=ended_s,
    )


def test_a_group_that_never_had_a_vm_is_deleted_early(connection: sa.Connection) -> None:
    """Such groups are kept as long as details, like platforms."""
    unused, used, late, _newest = (
        group_store.add(connection, make_group(str(ended_s), ended_s)).id
        for ended_s in (20.0, 21.0, 40.0, 22.0)
    )
    vm = GroupMember(key="k", vm_group=used, owner=2, number=1, vm=None, gone_s=5.0)
    GROUP_MEMBERS.add(connection, [vm])
    delete_old_rows(connection, Horizon(0, 30.0, 10.0))
    assert unused not in set(connection.scalars(sa.select(VM_GROUPS.c.id)))
    assert {used, late} <= set(connection.scalars(sa.select(VM_GROUPS.c.id)))


def test_comparisons_and_actions_are_deleted_with_the_details(connection: sa.Connection) -> None:
    """Another scheduler's actions and actions on platforms are kept as long as details."""
    platform = add_platform(connection, "running", 0.0, None)
    same = comparison_store.Comparison(
        period=1, at_s=10.0, vm=1, name="a", theirs="h", ours="h", why=""
    )
    comparison_store.add(connection, [same, replace(same, period=2, at_s=30.0)])
    for at_s in (10.0, 30.0):
        doing = platform_store.PlatformAction(
            platform=platform, at_s=at_s, who="ann", what="change", text=""
        )
        platform_store.add_action(connection, doing)
    delete_old_rows(connection, Horizon(2, 20.0, 0.0))
    for table in (comparison_store.COMPARISONS, platform_store.DOINGS):
        assert list(connection.scalars(sa.select(table.c.at_s))) == [30.0]


def test_vms_of_groups_are_deleted_with_the_details(connection: sa.Connection) -> None:
    """Each group keeps its highest number, which is never reused."""
    group = group_store.add(connection, make_group("1")).id
    for number, gone_s in enumerate([10.0, 30.0, 10.0, None, 10.0], 1):
        vm = GroupMember(
            key=f"k{number}", vm_group=group, owner=2, number=number, vm=None, gone_s=gone_s
        )
        GROUP_MEMBERS.add(connection, [vm])
    delete_old_rows(connection, Horizon(0, 20.0, 0.0))
    assert list(connection.scalars(sa.select(GROUP_VMS.c.number))) == [2, 4, 5]


def test_old_transactions_are_merged_by_kind(connection: sa.Connection) -> None:
    """Sums by kind and account stay, and newer transactions are unchanged."""
    treasury, issuance = account_store.treasury(connection), account_store.issuance(connection)
    for day in range(10):
        moves = {issuance.id: -100 - day, treasury.id: 100 + day}
        posting = Posting(TransactionKind.ISSUE, f"issue/{day}", moves)
        entry_store.post(connection, [posting], float(day))
    sums = entry_store.sums(connection, treasury.id, 0.0, None)
    while delete_old_rows(connection, Horizon(0, 0.0, 8.0), most=3):
        pass
    references = set(connection.scalars(sa.select(TRANSACTIONS.c.reference)))
    assert references == {"carried/issue", "issue/8", "issue/9"}
    assert entry_store.sums(connection, treasury.id, 0.0, None) == sums
    assert audit(connection).sound


def test_the_highest_number_of_a_platforms_vms_is_never_reused(
    connection: sa.Connection,
) -> None:
    """The row of a removed VM with the highest number stays as long as the platform."""
    platform = add_platform(connection, "running", 0.0, None)
    for number in (1, 2, 3):
        member = PlatformMember(
            key=f"k{number}", platform=platform, cluster="c", number=number, gone_s=5.0
        )
        PLATFORM_VMS.add(connection, [member])
    delete_old_rows(connection, Horizon(0, 10.0, 0.0))
    assert PLATFORM_VMS.highest_numbers(connection) == {platform: 3}
    assert list(connection.scalars(sa.select(MEMBERS.c.number))) == [3]


def test_periods_are_deleted_last_and_never_while_rows_refer_to_them(
    connection: sa.Connection,
) -> None:
    """Charges that were not rolled up into days keep their periods."""
    begin_periods(connection, 3)
    price_store.store_prices(connection, 1, {"default": {"cpu": 1.0}})
    delete_old_rows(connection, LATE)
    assert len(list(connection.scalars(sa.select(PERIODS.c.number)))) == 3


def test_an_account_that_paid_nothing_is_deleted_with_its_unused_platform(
    connection: sa.Connection,
) -> None:
    """The owner's statement stays the same; an account that paid is kept with its history."""
    money = MoneySettings(supply=1_000)
    tenant = open_tenant(connection, 2, money, 0.0)
    treasury = account_store.treasury(connection).id
    unused, paid, living = (
        open_application(connection, 2, name, 5_000_000, 1_000, 10.0).application
        for name in ("unused", "paid", "living")
    )
    charge = Posting(TransactionKind.CHARGE, f"charge/1/{paid}", {paid: -7, treasury: 7})
    entry_store.post(connection, [charge], 11.0)
    refill = {tenant.id: -3, unused: 2, paid: 1}
    entry_store.post(
        connection, [Posting(TransactionKind.REPLENISHMENT, "replenish/1/2", refill)], 12.0
    )
    for application in (unused, paid):
        end_application(connection, application, 20.0)
        add_platform(connection, "cancelled", 20.0 + application, application)
    add_platform(connection, "running", 20.0, living)
    before = statement(connection, 2, Month(1970, 1))
    while delete_old_rows(connection, Horizon(1, 1e12, 0.0), most=2):
        pass
    kept = {account.id for account in account_store.every(connection, AccountKind.APPLICATION)}
    assert kept == {paid, living}
    assert statement(connection, 2, Month(1970, 1)) == before
    assert audit(connection).sound


def test_few_accounts_are_deleted_in_one_batch(connection: sa.Connection) -> None:
    """An account takes several queries that block other writers, so batches are small."""
    open_tenant(connection, 2, MoneySettings(supply=1_000), 0.0)
    for number in range(13):
        application = open_application(connection, 2, f"a{number}", 5, 0, 1.0).application
        end_application(connection, application, 2.0)
    left = []
    more = True
    while more:
        more = delete_old_rows(connection, Horizon(1, 10.0, 0.0), most=100)
        left.append(len(account_store.every(connection, AccountKind.APPLICATION)))
    assert left == [3, 1]
    assert audit(connection).sound


def test_many_steps_of_a_period_are_deleted_in_small_batches(connection: sa.Connection) -> None:
    """A transaction deletes about as many rows as it may, at least those of one period."""
    begin_periods(connection, 4)
    for period in range(1, 5):
        steps = [Suspend(period=period, vm=vm, reason="") for vm in range(300)]
        recorded = journal.record(connection, steps, 0.0).recorded
        journal.refuse(connection, {step.id: "no" for step in recorded}, 1.0)
    count = sa.select(sa.func.count()).select_from(STEPS)
    left = [connection.scalar(count)]
    while delete_old_rows(connection, LATE, most=400):
        left.append(connection.scalar(count))
    assert left == [1200, 600, 0]
