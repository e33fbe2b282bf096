"""Whether cloud and database agree: the conditions that hold always, and those that hold soon."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from lxml import etree

from merkatd.database.ledger.account_store import ACCOUNTS, AccountKind
from merkatd.database.ledger.entry_store import ENTRIES, TRANSACTIONS, TransactionKind, audit
from merkatd.database.scheduler.period_store import PERIODS, PeriodState
from merkatd.database.scheduler.step_store import OUTSTANDING, STEPS, StepState
from tests.daemon.harness import INTERVAL_S, LIMIT_S, Site
from tests.daemon.tenants import FIRST_USER

_MOVES = ("deploy", "migrate")
_RUNNING, _DONE = ("3", "3"), ("6", "0")
_AT_REST = (("4", "0"), ("5", "0"), ("8", "0"), ("9", "0"))
"""Stopped, suspended, powered off or undeployed by their owners."""


@dataclass(frozen=True, slots=True)
class CloudVm:
    """A VM as the cloud reports it."""

    id: int
    state: tuple[str, str]
    owner: int
    key: str
    """The key of Merkat's creation; empty for VMs that tenants created."""
    asked: tuple[int, ...]
    """The target hosts of accepted deployments and migrations, in order."""
    charged: tuple[int, ...]
    """The hosts whose lists contain the VM."""

    @property
    def words(self) -> str:
        """Return a description for messages."""
        return f"VM {self.id}, {'/'.join(self.state)}, asked {self.asked}, on {self.charged}"


def cloud_vms(site: Site) -> list[CloudVm]:
    """Return all VMs of the cloud, ended ones too, with their histories."""
    pool = etree.fromstring(site.call("one.vmpool.infoextended", -2, -1, -1, -2))
    hosts = etree.fromstring(site.call("one.hostpool.info"))
    charged: dict[str, list[int]] = {}
    for host in hosts.findall("HOST"):
        for vm in host.findall("VMS/ID"):
            charged.setdefault(vm.text or "", []).append(int(host.findtext("ID", "")))
    ids = [vm.findtext("ID", "") for vm in pool.findall("VM")]
    return [_cloud_vm(site.call("one.vm.info", int(vm)), charged.get(vm, [])) for vm in ids]


_STAYING = frozenset({"10", "11", "19", "20", "35", "44"})
"""Actions after which a VM continues on the same host, in a new history record.

It is resumed from suspension or power-off, resumed again after a failed resume, or resized."""


def _cloud_vm(text: str, charged: Iterable[int]) -> CloudVm:
    vm = etree.fromstring(text)
    return CloudVm(
        id=int(vm.findtext("ID", "")),
        state=(vm.findtext("STATE", ""), vm.findtext("LCM_STATE", "")),
        owner=int(vm.findtext("UID", "")),
        key=vm.findtext("USER_TEMPLATE/MERKAT_KEY", ""),
        asked=asked_hosts(text),
        charged=tuple(charged),
    )


def asked_hosts(text: str) -> tuple[int, ...]:
    """Return the hosts in a VM's history that it was deployed or migrated to, in order."""
    asked: list[int] = []
    came_back = stayed = False
    for record in etree.fromstring(text).findall("HISTORY_RECORDS/HISTORY"):
        if not came_back and not stayed:
            asked.append(int(record.findtext("HID", "")))
        # A failed migration never ran on its target; the next record is the return to its source.
        came_back = record.findtext("RSTIME") == "0" != record.findtext("ETIME")
        stayed = record.findtext("ACTION") in _STAYING
    return tuple(asked)


# -- conditions that hold always --------------------------------------------------------------


def agree(site: Site) -> None:
    """Check that no step was repeated or confirmed wrongly, and that the books are sound."""
    if not site.read(_has_tables):
        # A daemon killed during its first schema migration has sent no step.
        assert not any(vm.asked or vm.key for vm in cloud_vms(site))
        return
    done_once(site)
    site.read(_books)


def done_once(site: Site) -> None:
    """Check that each step was sent, made and confirmed at most once and is in the journal."""
    confirmed = site.read(lambda c: _moves(c, [StepState.CONFIRMED]))
    made = {vm: key for key, vm in site.read(_made)}
    vms = cloud_vms(site)
    sent = site.read(lambda c: _moves(c, StepState))
    for vm in vms:
        wrong = f"{vm.words}; sent {sent.get(vm.id, [])}, confirmed {confirmed.get(vm.id, [])}"
        assert _within(vm.asked, sent.get(vm.id, [])), f"done more often than sent: {wrong}"
        assert _within(confirmed.get(vm.id, []), vm.asked), f"confirmed but not done: {wrong}"
    for vm in vms:
        if vm.id in made:
            assert (vm.key, vm.owner) == (made[vm.id], FIRST_USER), f"half created: {vm.words}"
    keys = Counter(vm.key for vm in vms if vm.key)
    assert set(keys) <= site.read(_keys), "an orphan"
    assert all(count == 1 for count in keys.values()), "created twice"


def _has_tables(connection: sa.Connection) -> bool:
    return sa.inspect(connection).has_table(STEPS.name)


def _moves(connection: sa.Connection, states: Iterable[StepState]) -> dict[int, list[int]]:
    """Return, by VM, the hosts of the sent deployments and migrations, in order."""
    query = (
        sa.select(STEPS.c.vm, STEPS.c.host)
        .where(STEPS.c.kind.in_(_MOVES), STEPS.c.sent_s.is_not(None), STEPS.c.state.in_([*states]))
        .order_by(STEPS.c.period, STEPS.c.position)
    )
    moves: dict[int, list[int]] = {}
    for vm, host in connection.execute(query):
        moves.setdefault(vm, []).append(host or 0)
    return moves


def _within(some: Sequence[int], all_of_them: Sequence[int]) -> bool:
    """Return whether `some` is a subsequence of the other."""
    rest = iter(all_of_them)
    return all(item in rest for item in some)


def _keys(connection: sa.Connection) -> set[str]:
    query = sa.select(STEPS.c.create_key).where(STEPS.c.sent_s.is_not(None))
    return {key for key in connection.scalars(query) if key is not None}


def _made(connection: sa.Connection) -> list[tuple[str, int]]:
    """Return key and VM of each confirmed creation."""
    query = sa.select(STEPS.c.create_key, STEPS.c.vm).where(
        STEPS.c.kind == "create", STEPS.c.state == StepState.CONFIRMED
    )
    return [(key or "", vm) for key, vm in connection.execute(query)]


def _books(connection: sa.Connection) -> None:
    """Check that charges are unique, balances match their entries, and numbers ascend."""
    assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
    assert audit(connection).sound
    references = list(connection.scalars(sa.select(TRANSACTIONS.c.reference)))
    assert len(references) == len(set(references))
    periods = connection.execute(sa.select(PERIODS).order_by(PERIODS.c.number)).all()
    assert [period.number for period in periods] == list(range(1, len(periods) + 1))
    observed = [period.observed_s for period in periods]
    assert observed == sorted(set(observed))
    charged = {row.number for row in periods if row.state == PeriodState.CHARGED}
    billed = Counter(
        reference.split("/")[1] for reference in references if reference.startswith("charge/")
    )
    assert {int(number) for number in billed} <= charged
    _balances(connection)


def _balances(connection: sa.Connection) -> None:
    """Check that each tenant has its opening balance less its charges."""
    paid = (
        sa.select(ENTRIES.c.account_id, sa.func.sum(ENTRIES.c.amount))
        .join(TRANSACTIONS, TRANSACTIONS.c.id == ENTRIES.c.transaction_id)
        .where(TRANSACTIONS.c.kind == TransactionKind.CHARGE)
        .group_by(ENTRIES.c.account_id)
    )
    charges: dict[int, int] = {row[0]: row[1] for row in connection.execute(paid)}
    tenants = sa.select(ACCOUNTS.c.id, ACCOUNTS.c.balance)
    for account, balance in connection.execute(
        tenants.where(ACCOUNTS.c.kind == AccountKind.TENANT)
    ):
        assert balance == 10**12 + charges.get(account, 0)


# -- conditions that hold soon ----------------------------------------------------------------


def unsettled(site: Site) -> str:
    """Describe a state that a few good periods have to correct; empty if there is no such state."""
    vms = cloud_vms(site)
    still = {_RUNNING, _DONE, *_AT_REST}
    waiting = [vm.words for vm in vms if vm.state not in still or len(vm.charged) > 1]
    if waiting:
        return f"under way or stuck: {waiting}"
    astray = [vm.words for vm in vms if vm.key and vm.owner != FIRST_USER and vm.state != _DONE]
    if astray:
        return f"created but not passed to their owner: {astray}"
    return site.read(_unsettled)


def _unsettled(connection: sa.Connection) -> str:
    rows = connection.execute(sa.select(STEPS).where(STEPS.c.state.in_(OUTSTANDING))).all()
    newest = connection.scalar(sa.select(sa.func.max(PERIODS.c.observed_s))) or 0.0
    for row in rows:
        age_s = newest - row.planned_s
        if row.state == StepState.PLANNED or age_s > LIMIT_S + INTERVAL_S:
            return f"{row.kind} of VM {row.vm} is {row.state} after {age_s:.2f} s"
    due = connection.scalar(
        sa.select(sa.func.count()).where(
            PERIODS.c.state.in_([PeriodState.CONTINUED, PeriodState.DECIDED, PeriodState.ACTED])
        )
    )
    return f"{due} periods are still to be charged" if due and due > 1 else ""
