"""A frontend in virtual time whose hosts are shared by groups, and three users with credits."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from twisted.internet.defer import ensureDeferred

from merkatd.currency.settings import MoneySettings
from merkatd.database.fleets import group_store
from merkatd.database.fleets.group_store import GroupRow
from merkatd.database.fleets.group_vm_store import GROUP_MEMBERS, GroupMember
from merkatd.groups.group_keeper import Keeper
from merkatd.groups.group_orders import Edit
from merkatd.scheduler.base.settings import MarketRules
from merkatd.service.groups import GroupService
from tests.scheduler.frontend import Frontend
from tests.served import services_at

GROUPS = MarketRules(name="groups", strategy="groups")
CREDITS = 1_000_000.0


def template(vcpus: int = 3, work: float = 1e9, memory: int = 1024) -> str:
    """Return the lines of a VM that computes as much as it can."""
    behaviour = f'EMBEDDED=[WORK="{work}",DEMAND="1",MEMORY_USE="256",ON_FINISH="poweroff"]'
    return f'CPU="1"\nVCPU="{vcpus}"\nMEMORY="{memory}"\n{behaviour}'


class Site(Frontend):
    """By default three hosts of four cores."""

    def __init__(self, **settings: Any) -> None:
        given: dict[str, Any] = {"markets": (GROUPS,), "money": MoneySettings(supply=10 * CREDITS)}
        super().__init__(**(given | settings))
        self.ann, self.bob, self.eve = self.first_tenants(("ann", "bob", "eve"), CREDITS)

    def start_daemon(self) -> None:
        """Start a daemon with a keeper, without any memory."""
        super().start_daemon()
        self.keeper = Keeper(self.scheduler.world)
        world = replace(self.scheduler.world, proposals=self.keeper.proposals)
        self.scheduler.world = world

    def wait(self, coroutine: Any) -> Any:
        """Return the result of a coroutine."""
        return self.result(ensureDeferred(coroutine))

    def create(self, rate: float, nvm: int, owner: int | None = None, **changes: Any) -> int:
        """Create a group and return its id."""
        values = {
            "owner": self.ann if owner is None else owner,
            "user_group": 1,
            "name": None,
            "market": "groups",
            "template": template(),
            "spending_rate": rate,
            "nvm": nvm,
        }
        row: GroupRow = self.wait(self.keeper.create(**(values | changes)))
        return row.id

    def edit(self, group: int, **new: Any) -> GroupRow:
        """Edit a group and return its new row."""
        row: GroupRow = self.wait(self.keeper.edit(group, Edit(**new)))
        return row

    def delete(self, group: int) -> None:
        """Delete a group."""
        self.wait(self.keeper.delete(group))

    def group(self, group: int) -> GroupRow | None:
        """Return the stored row of a group."""
        row: GroupRow | None = self.read(lambda c: group_store.get(c, group))
        return row

    def members(self, group: int) -> Sequence[GroupMember]:
        """Return the living members of a group."""
        rows: Sequence[GroupMember] = self.read(lambda c: GROUP_MEMBERS.living(c, group))
        return rows

    def vms(self, group: int) -> list[int]:
        """Return the VM ids of the living members."""
        return [member.vm for member in self.members(group) if member.vm is not None]

    def alive(self) -> list[int]:
        """Return the ids of all VMs in the cloud that are not done."""
        return [vm.id for vm in self.cloud.world.vms.rows.values() if vm.state != 6]

    def running(self) -> list[int]:
        """Return the ids of the running VMs."""
        return [vm for vm in self.alive() if self.state(vm) == "RUNNING"]

    def quota(self, vm: int) -> float:
        """Return the CPU that a VM's host allows it, in percent of a core."""
        limits = self.limits(vm)
        together: int = limits.vcpu_quota * self.bench.vm(vm).vcpus
        return (together if limits.vcpu_quota > 0 else limits.global_quota) / 1000


def groups_at(site: Site) -> GroupService:
    """Return the service of a site whose templates use nothing of OpenNebula."""
    return services_at(site.scheduler, keeper=site.keeper).require_groups()
