"""What there is to say of a group: whose it is, what it asks for, what its VMs get."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from merkatd.database import group_vms, groups
from merkatd.database.group_vms import GroupVm
from merkatd.database.groups import Group
from merkatd.groups.permissions import letters, octal
from merkatd.limits.cpu import UNITS_PER_CORE
from merkatd.market.explain import hosts_after
from merkatd.scheduler.tell import Announcement
from merkatd.scheduler.using import CPU

Row = dict[str, Any]
RUNNING = "RUNNING"
_NOWHERE = -1


class Sights:
    """What the latest period saw of VMs, and whose names it knows."""

    def __init__(self, latest: Announcement | None) -> None:
        self._latest = latest
        self._rows: Mapping[int, int] = {}
        if latest is not None:
            snapshot = latest.seen.snapshot
            self._rows = {vm: row for row, vm in enumerate(snapshot.vms.id.tolist())}
            self._hosts = hosts_after(snapshot, latest.decided.decision.plan)

    def user(self, owner: int) -> str | None:
        """The user's name."""
        names = {} if self._latest is None else self._latest.seen.observation.owner_name
        return names.get(owner)

    def user_group(self, group: int) -> str | None:
        """The name of a group of users."""
        names = {} if self._latest is None else self._latest.seen.observation.group_name
        return names.get(group)

    def vm(self, one: GroupVm) -> Row:
        """A VM of a group; those that the period did not see have neither host nor share."""
        known: Row = {"vm": one.vm, "number": one.number, "leaving": one.leaving}
        row = None if one.vm is None else self._rows.get(one.vm)
        if self._latest is None or row is None:
            return known | {"state": "being made" if one.vm is None else "not seen yet"}
        snapshot, decision = self._latest.seen.snapshot, self._latest.decided.decision
        host = int(self._hosts[row])
        return known | {
            "state": self._latest.seen.observation.vm_words[row],
            "host": None if host == _NOWHERE else snapshot.hosts.name[host],
            "bid": float(snapshot.vms.bid[row, CPU]),
            "cpu": float(decision.allocations[row, CPU]),
        }


def summary(group: Group, members: Sequence[GroupVm], sights: Sights) -> Row:
    """All but its template and its VMs one by one."""
    vms = [sights.vm(one) for one in members]
    cpu = sum(one.get("cpu", 0.0) for one in vms)
    return {
        "id": group.id,
        "name": group.name,
        "owner": group.owner,
        "user": sights.user(group.owner),
        "user_group": group.user_group,
        "group": sights.user_group(group.user_group),
        "permissions": octal(group.permissions),
        "may": letters(group.permissions),
        "market": group.market,
        "spending_rate": group.spending_rate,
        "rate_of_a_vm": group.rate_of_a_vm,
        "nvm": group.nvm,
        "running": sum(one["state"] == RUNNING for one in vms),
        "vm_ids": [one.vm for one in members if one.vm is not None],
        "cpu": cpu,
        "cost_at_most": group.spending_rate * cpu / UNITS_PER_CORE,
        "state": "ending" if group.ending else "active",
        "why": group.why,
        "created_s": group.created_s,
    }


def rows(connection: sa.Connection, latest: Announcement | None) -> list[tuple[Group, Row]]:
    """Every group that is not over, each with what there is to say of it in short."""
    sights = Sights(latest)
    members: dict[int, list[GroupVm]] = {}
    for one in group_vms.present(connection):
        members.setdefault(one.vm_group, []).append(one)
    return [
        (group, summary(group, members.get(group.id, []), sights))
        for group in groups.living(connection)
    ]


def shown(connection: sa.Connection, group: Group, latest: Announcement | None) -> Row:
    """All that is known of one."""
    sights, members = Sights(latest), group_vms.present(connection, group.id)
    return summary(group, members, sights) | {
        "template": group.template,
        "vms": [sights.vm(one) for one in members],
    }
