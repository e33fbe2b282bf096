"""A tenant's calls on groups: `Groups(merkat).create(template=..., rate=60, count=4)`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from merkatd.client.answers import read, read_all
from merkatd.client.merkat import SELF, Merkat, without_none

_STAYS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVm:
    """A VM of a group; `vm` is None until the VM exists, the rest until a period has seen it."""

    number: int
    state: str
    leaving: bool
    vm: int | None = None
    host: str | None = None
    bid: float | None = None
    cpu: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group. Lists of groups leave out `template` and `vms`."""

    id: int
    name: str
    owner: int
    user_group: int
    permissions: str
    may: str
    market: str
    spending_rate: float
    rate_of_a_vm: float
    nvm: int
    running: int
    vm_ids: Sequence[int]
    cpu: float
    cost_at_most: float
    state: str
    why: str
    created_s: float
    user: str | None = None
    group: str | None = None
    template: str | None = None
    vms: Sequence[GroupVm] = ()


class Groups:
    """The calls on groups of one login."""

    def __init__(self, merkat: Merkat) -> None:
        self._merkat = merkat

    def create(
        self,
        *,
        rate: float,
        count: int,
        template: str | None = None,
        template_id: int | None = None,
        template_name: str | None = None,
        name: str | None = None,
        market: str | None = None,
    ) -> Group:
        """Create `count` VMs that share a spending rate, from a text or an OpenNebula template."""
        asked = without_none(
            rate=float(rate),
            count=count,
            template=template,
            template_id=template_id,
            template_name=template_name,
            name=name,
            market=market,
        )
        return self._one("create", asked)

    def list(self, user: int = SELF) -> tuple[Group, ...]:
        """Return the groups that this login may use, of all users or of one."""
        return read_all(Group, self._merkat.call("merkat.group.list", user))

    def info(self, group: int) -> Group:
        """Return a group with its VMs."""
        return self._one("info", group)

    def edit(
        self,
        group: int,
        *,
        rate: float | None = None,
        count: int | None = None,
        vms: Sequence[int] = (),
    ) -> Group:
        """Change the rate or the number of VMs; surplus VMs end, the newest or those in `vms`."""
        change = without_none(
            rate=None if rate is None else float(rate), count=count, vms=[*vms] or None
        )
        return self._one("edit", group, change)

    def delete(self, group: int) -> Group:
        """Delete a group and its VMs."""
        return self._one("delete", group)

    def rename(self, group: int, name: str) -> Group:
        """Rename a group."""
        return self._one("rename", group, name)

    def chmod(self, group: int, permissions: str) -> Group:
        """Change a group's permissions: three octal digits."""
        return self._one("chmod", group, permissions)

    def chown(self, group: int, user: int = _STAYS, user_group: int = _STAYS) -> Group:
        """Change a group's owner, its user group, or both."""
        return self._one("chown", group, user, user_group)

    def _one(self, method: str, *arguments: Any) -> Group:
        answer = self._merkat.call(f"merkat.group.{method}", *arguments)
        return read(Group, answer, vms=GroupVm)
