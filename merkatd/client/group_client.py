"""Groups as a user's program sees them: `Groups(merkat).create(template=..., rate=60, count=4)`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from merkatd.client.answers import read, read_all
from merkatd.client.merkat import SELF, Merkat, without_none

_STAYS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupVm:
    """One of a group's VMs; `vm` is None until it is made, the rest until it was seen."""

    number: int
    state: str
    leaving: bool
    vm: int | None = None
    host: str | None = None
    bid: float | None = None
    cpu: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group. Template and VMs are there where one group was asked for."""

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
    """The groups that one login may use."""

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
        """So many VMs that share a spending rate, from a text or one of OpenNebula's templates."""
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
        """All that may be used, or one user's of them."""
        return read_all(Group, self._merkat.call("merkat.group.list", user))

    def info(self, group: int) -> Group:
        """One of them, with its VMs."""
        return self._one("info", group)

    def edit(
        self,
        group: int,
        *,
        rate: float | None = None,
        count: int | None = None,
        vms: Sequence[int] = (),
    ) -> Group:
        """Another rate or number; of VMs that are too many the newest end, or these."""
        change = without_none(
            rate=None if rate is None else float(rate), count=count, vms=[*vms] or None
        )
        return self._one("edit", group, change)

    def delete(self, group: int) -> Group:
        """End it and its VMs."""
        return self._one("delete", group)

    def rename(self, group: int, name: str) -> Group:
        """Call it otherwise."""
        return self._one("rename", group, name)

    def chmod(self, group: int, permissions: str) -> Group:
        """Change who may use and manage it: three octal digits."""
        return self._one("chmod", group, permissions)

    def chown(self, group: int, user: int = _STAYS, user_group: int = _STAYS) -> Group:
        """Change whose it is."""
        return self._one("chown", group, user, user_group)

    def _one(self, method: str, *arguments: Any) -> Group:
        answer = self._merkat.call(f"merkat.group.{method}", *arguments)
        return read(Group, answer, vms=GroupVm)
