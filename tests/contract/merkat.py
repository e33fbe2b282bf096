"""Merkat itself on an endpoint: whole periods, and what came of them there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from merkatd.base.clock import Inline
from merkatd.database import Database, migrations
from merkatd.database.base.engine import make_engine
from merkatd.database.database import transaction
from merkatd.hypervisor import UntouchedHypervisors
from merkatd.ledger import TenantAccount, tenant
from merkatd.opennebula import Client, OpenNebulaCloud
from merkatd.opennebula.current_state import HostChecks
from merkatd.opennebula.pools.removed_user_check import missing_users
from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.period import Scheduler
from tests.contract.endpoint import SMALL
from tests.contract.ways import PENDING, RUNNING

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint

_RHYTHM = Rhythm(settle_s=0.0)


DISABLED, OFFLINE = 1, 2


def say(endpoint: Endpoint, host: int, words: str) -> None:
    """Write something into the template of the host with this number among ours."""
    endpoint.ok("one.host.update", endpoint.hosts[host], words, 1)


class Merkat:
    """A scheduler with a database of its own; hosts' limits are nobody's business here."""

    def __init__(self, endpoint: Endpoint, **world: Any) -> None:
        self._endpoint = endpoint
        self._engine = make_engine("sqlite://")
        migrations.upgrade(self._engine)
        client = Client(endpoint.transport, endpoint.admin, endpoint.clock)
        cloud = OpenNebulaCloud(client, endpoint.clock, endpoint.executor)
        rng = np.random.default_rng(3)
        given = {
            "cloud": cloud,
            "hypervisors": UntouchedHypervisors(),
            "database": Database(self._engine, Inline(), endpoint.clock, rng),
            "clock": endpoint.clock,
            "executor": Inline(),
            "rng": rng,
            "now": endpoint.clock.seconds,
            "rhythm": _RHYTHM,
            "why_not_on": HostChecks(client, Inline(), endpoint.clock.seconds).why_not,
            "chores": cloud.run_scheduled,
            "missing_users": partial(missing_users, client),
        }
        self.scheduler = Scheduler(PeriodContext(**{**given, **world}))

    def period(self) -> None:
        """One period from beginning to end."""
        self._endpoint.run(self.scheduler.period())

    def standing(self, owner: int) -> TenantAccount:
        """Return what the books say of a tenant."""
        return transaction(self._engine, lambda c: tenant(c, owner))

    def places(self, *templates: str) -> list[int | None]:
        """Where new VMs are put that say this besides their size, unless they say that too."""
        return self.puts(*map(self.new, templates))

    def new(self, template: str) -> int:
        """A new VM."""
        return self._endpoint.new(template if "MEMORY" in template else SMALL + template)

    def puts(self, *vms: int) -> list[int | None]:
        """After a period: the hosts of these VMs, by their numbers among ours; None waits."""
        self.period()
        return [self._settled(vm) for vm in vms]

    def why(self, template: str) -> str:
        """Why a new VM waits, as its owner is told."""
        vm = self.new(template)
        assert self.puts(vm) == [None]
        return self.said(vm)

    def said(self, vm: int) -> str:
        """What the VM's owner reads."""
        shown = self._endpoint.xml("one.vm.info", vm)
        return shown.findtext("USER_TEMPLATE/SCHED_MESSAGE") or ""

    def close(self) -> None:
        """Forget everything."""
        self._engine.dispose()

    def _settled(self, vm: int) -> int | None:
        # A server answers before the state moves; who is to wait has been told why.
        self._endpoint.until(
            lambda: self._endpoint.state(vm) != PENDING or self.said(vm), f"word of VM {vm}"
        )
        if self._endpoint.state(vm) == PENDING:
            return None
        self._endpoint.reaches(vm, RUNNING)
        return self.host_of(vm)

    def host_of(self, vm: int) -> int:
        """The number of the VM's host among ours."""
        record = self._endpoint.xml("one.vm.info", vm).findall("HISTORY_RECORDS/HISTORY")[-1]
        return self._endpoint.hosts.index(int(record.findtext("HID") or ""))
