"""Views of groups for users: owner, settings, VMs and their allocations."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd.cluster.columns import NO_HOST, NO_ROW, rows_of
from merkatd.database.fleets import group_vm_store
from merkatd.database.fleets.group_store import GroupRow
from merkatd.database.fleets.group_vm_store import GROUP_MEMBERS, GroupMember
from merkatd.groups.group_orders import letters, octal
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.market.explanation import hosts_after
from merkatd.scheduler.charging.used_cpu import CPU
from merkatd.scheduler.phases.announce import Announcement

Row = dict[str, Any]
RUNNING = "RUNNING"


class Sights:
    """VMs and users' names as of the latest period."""

    def __init__(self, latest: Announcement | None) -> None:
        self._latest = latest
        if latest is not None:
            self._hosts = hosts_after(latest.seen.snapshot, latest.decided.decision.plan)

    def user(self, owner: int) -> str | None:
        """Return the user's name, None if it is not known."""
        names = {} if self._latest is None else self._latest.seen.observation.owner_name
        return names.get(owner)

    def user_group(self, group: int) -> str | None:
        """Return the name of a group of users, None if it is not known."""
        names = {} if self._latest is None else self._latest.seen.observation.group_name
        return names.get(group)

    def use(self, vms: Sequence[int]) -> tuple[int, float]:
        """Return how many of these VMs run, and the sum of their CPU allocations."""
        if self._latest is None:
            return 0, 0.0
        rows = self._rows_of(vms)
        words = self._latest.seen.observation.vm_words
        allocations = self._latest.decided.decision.allocations[rows, CPU]
        return sum(words[row] == RUNNING for row in rows), sum(allocations.tolist(), 0.0)

    def _rows_of(self, vms: Sequence[int]) -> list[int]:
        """Return the snapshot's rows of these VMs, in this order, without VMs it lacks."""
        if self._latest is None:
            return []
        rows = rows_of(self._latest.seen.snapshot.vms.id, np.asarray(vms, np.int64))
        found: list[int] = rows[rows != NO_ROW].tolist()
        return found

    def vm(self, one: GroupMember) -> Row:
        """Return the view of a group's VM; VMs not in the snapshot have neither host nor bid."""
        known: Row = {"vm": one.vm, "number": one.number, "leaving": one.leaving}
        rows = [] if one.vm is None else self._rows_of([one.vm])
        if self._latest is None or not rows:
            return known | {"state": "being made" if one.vm is None else "not seen yet"}
        row = rows[0]
        snapshot, decision = self._latest.seen.snapshot, self._latest.decided.decision
        host = int(self._hosts[row])
        return known | {
            "state": self._latest.seen.observation.vm_words[row],
            "host": None if host == NO_HOST else snapshot.hosts.name[host],
            "bid": float(snapshot.vms.bid[row, CPU]),
            "cpu": float(decision.allocations[row, CPU]),
        }


def summary(group: GroupRow, vms: Sequence[int], sights: Sights) -> Row:
    """Return a group's view without its template and VMs; `vms` are the ids of its VMs."""
    running, cpu = sights.use(vms)
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
        "running": running,
        "vm_ids": list(vms),
        "cpu": cpu,
        "cost_at_most": group.spending_rate * cpu / UNITS_PER_CORE,
        "state": "ending" if group.ending else "active",
        "why": group.why,
        "created_s": group.created_s,
    }


def rows(
    connection: sa.Connection, some: Sequence[GroupRow], latest: Announcement | None
) -> list[Row]:
    """Return short views of these groups."""
    sights, vms = Sights(latest), group_vm_store.ids(connection, [one.id for one in some])
    return [summary(one, vms[one.id], sights) for one in some]


def group_view(connection: sa.Connection, group: GroupRow, latest: Announcement | None) -> Row:
    """Return the full view of a group."""
    sights, members = Sights(latest), GROUP_MEMBERS.living(connection, group.id)
    made = [one.vm for one in members if one.vm is not None]
    return summary(group, made, sights) | {
        "template": group.template,
        "vms": [sights.vm(one) for one in members],
    }
