"""Merkat on an endpoint: whole periods and their results."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from merkatd.base.clock import Inline
from merkatd.database import Database
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
from tests.migrated import migrated

if TYPE_CHECKING:
    from tests.contract.endpoint import Endpoint

_RHYTHM = Rhythm(settle_s=0.0)


DISABLED, OFFLINE = 1, 2


def say(endpoint: Endpoint, host: int, words: str) -> None:
    """Write attributes into the template of the test host with this number."""
    endpoint.ok("one.host.update", endpoint.hosts[host], words, 1)


class Merkat:
    """A scheduler with its own database and without hypervisors."""

    def __init__(self, endpoint: Endpoint, **world: Any) -> None:
        self._endpoint = endpoint
        self._engine = migrated()
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
        """Run one whole period."""
        self._endpoint.run(self.scheduler.period())

    def standing(self, owner: int) -> TenantAccount:
        """Return the account of a tenant."""
        return transaction(self._engine, lambda c: tenant(c, owner))

    def places(self, *templates: str) -> list[int | None]:
        """Return the hosts of new VMs with these attributes, by default of a small size."""
        return self.puts(*map(self.new, templates))

    def new(self, template: str) -> int:
        """Create a VM."""
        return self._endpoint.new(template if "MEMORY" in template else SMALL + template)

    def puts(self, *vms: int) -> list[int | None]:
        """Return the numbers of these VMs' hosts after a period; None for a waiting VM."""
        self.period()
        return [self._settled(vm) for vm in vms]

    def why(self, template: str) -> str:
        """Return the message of a new VM that waits."""
        vm = self.new(template)
        assert self.puts(vm) == [None]
        return self.message(vm)

    def message(self, vm: int) -> str:
        """Return the message that the VM's owner reads."""
        shown = self._endpoint.xml("one.vm.info", vm)
        return shown.findtext("USER_TEMPLATE/SCHED_MESSAGE") or ""

    def close(self) -> None:
        """Close the database."""
        self._engine.dispose()

    def _settled(self, vm: int) -> int | None:
        # A server answers before the state changes; a waiting VM has its message by now.
        self._endpoint.until(
            lambda: self._endpoint.state(vm) != PENDING or self.message(vm), f"word of VM {vm}"
        )
        if self._endpoint.state(vm) == PENDING:
            return None
        self._endpoint.reaches(vm, RUNNING)
        return self.host_of(vm)

    def host_of(self, vm: int) -> int:
        """Return the number of the VM's host among the test hosts."""
        record = self._endpoint.xml("one.vm.info", vm).findall("HISTORY_RECORDS/HISTORY")[-1]
        return self._endpoint.hosts.index(int(record.findtext("HID") or ""))
