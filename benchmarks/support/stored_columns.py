"""What a snapshot gets besides the pools: history of use, declarations, and last migrations."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import Floats, Ints
from merkatd.cluster.applications import ApplicationTables
from merkatd.currency.settings import MoneySettings
from merkatd.database import migrations, use_sample_store, vm_history_store
from merkatd.database.base.engine import make_engine
from merkatd.database.database import transaction
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.database.ledger import account_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.ledger import update_tenants
from merkatd.limits import EnforcedLimits
from merkatd.platforms.declared_applications import DeclaredApplications
from merkatd.scheduler.base.ports import GuestUse, Observation
from merkatd.scheduler.observation.observed import SAMPLES, RecentUse

PLATFORMS = 500
"""Platforms that declare an application; together they have all VMs."""
EACH_S = 60.0

_Result = TypeVar("_Result")
_CLUSTER = '\n[[cluster]]\nname = "nodes"\ninitial = 20\nmost = 20\ntemplate = """\n{vm}"""\n'
_VM = 'CPU="1"\nMEMORY="1024"\n'
_TEMPLATE = 'name = "p"\n[budget]\ncredits = 1000\n{application}\n' + _CLUSTER
_STAGE = "[[job.stage]]\nwork = 600\ngreatest_speed = 100\n"
_DECLARED = (
    f'[job]\ngoal = "2h"\n{_STAGE}{_STAGE}',
    '[replicated]\ntasks = 3\nrun_time = "6h"\nreliability = 0.99\n',
)
"""The declarations in turn."""


@dataclass(frozen=True, slots=True)
class StoredColumns:
    """The inputs of the columns that the daemon's own store fills."""

    declared: ApplicationTables
    moved_at_s: dict[int, float]


class ColumnStore:
    """A database and the recent use of a daemon that has run for some periods."""

    def __init__(self, vms: int, moved: int) -> None:
        """Begin with full samples, all platforms, and the last migrations of some VMs."""
        self._engine = make_engine("sqlite://")
        migrations.upgrade(self._engine)
        accounts = self._run(lambda connection: _add_platforms(connection, vms))
        self.applications = {vm: accounts[vm % PLATFORMS] for vm in range(vms)}
        """The account of each VM's platform, by VM id."""
        self.recent = RecentUse()
        self._declared = DeclaredApplications(lambda _platform: {})
        self._moved = frozenset(range(0, vms, max(vms // moved, 1)))
        self._at_s = 0.0

    def _run(self, work: Callable[[sa.Connection], _Result]) -> _Result:
        return transaction(self._engine, work)

    async def run(self, work: Callable[[sa.Connection], _Result]) -> _Result:
        """Run the work in a transaction."""
        return self._run(work)

    async def read(self, work: Callable[[sa.Connection], _Result]) -> _Result:
        """Run the work in a transaction."""
        return self._run(work)

    def fill(self, seen: Observation) -> None:
        """Let as many periods pass as the history has samples, and migrate VMs in the first."""
        vms = frozenset(seen.vm_id.tolist())
        self._run(
            lambda connection: vm_history_store.update_histories(
                connection, self._moved, 1.0, frozenset(), vms, vms
            )
        )
        for _ in range(SAMPLES):
            self.inputs(seen)

    def inputs(self, seen: Observation) -> StoredColumns:
        """Store a period's use, and return what the next snapshot gets from the store."""
        self._at_s += EACH_S
        self.recent.met(replace(seen, at_s=self._at_s), _use(seen.vm_id, self._at_s), EACH_S)
        self._run(
            lambda connection: use_sample_store.keep_samples(connection, self.recent.to_store())
        )
        vms = frozenset(seen.vm_id.tolist())
        known = self._run(
            lambda connection: vm_history_store.update_histories(
                connection, frozenset(), self._at_s, frozenset(), vms, vms
            )
        )
        declared: Any = self._declared.tables(self)
        return StoredColumns(_finished(declared), dict(known.moved_at_s))


def _finished(coroutine: Any) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the store waits for nothing")


def _use(vms: Ints, at_s: float) -> GuestUse:
    """Return the use of guests that each compute for a part of the time."""
    no_ids = np.zeros(0, dtype=np.int64)
    none = np.zeros(0, dtype=bool)
    in_force = EnforcedLimits(no_ids, no_ids, no_ids, no_ids, np.zeros(0), none, none)
    used: Floats = 512.0 + np.mod(vms * 37.0 + at_s, 400.0)
    cpu_s: Floats = at_s * (0.1 + np.mod(vms, 9) / 10.0)
    return GuestUse(vms, cpu_s, np.full(len(vms), 1024.0), used, in_force)


def _add_platforms(connection: sa.Connection, vms: int) -> list[int]:
    """Store the platforms, and return their accounts."""
    owners = dict.fromkeys(range(PLATFORMS))
    update_tenants(connection, owners, MoneySettings(supply=1e9, starting_credits=1e5), 0.0)
    accounts = [account.id for account in account_store.every(connection, AccountKind.TENANT)]
    for number, account in enumerate(accounts):
        text = _TEMPLATE.format(application=_DECLARED[number % len(_DECLARED)], vm=_VM)
        platform_store.add(
            connection,
            PlatformRow(
                token=f"token {number}",
                owner=number,
                name=f"p{number}",
                account=account,
                template=text,
                vm_templates={"nodes": _VM},
                state="running",
                submitted_s=0.0,
                since_s=0.0,
                deadline_s=None,
                sizes={"nodes": vms // PLATFORMS},
            ),
        )
    return accounts
