"""Weeks or a year of periods with changing VMs, platforms and groups: nothing grows.

`make soak` runs a year with a period an hour.
"""

import time
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

from merkatd.database.fleets import group_store
from merkatd.database.fleets.group_store import GroupRow
from merkatd.database.fleets.group_vm_store import GROUP_MEMBERS, GroupMember
from merkatd.database.ledger.entry_store import audit
from merkatd.database.migrations import TABLES
from merkatd.database.scheduler import limit_order_store
from merkatd.scheduler import retain
from merkatd.scheduler.base.settings import Rhythm
from tests.lengths import SOAK, shorten
from tests.platforms.site import BOB, Site

DAY_S = 86_400.0
INTERVAL_S = DAY_S / shorten(24, 4)
DAYS = shorten(365, 9)
KEPT_DAYS, HISTORY_DAYS = shorten(3, 1), shorten(6, 3)
EVERY = retain.EVERY if SOAK else 8
"""The number of periods between two deletions."""


def churn(site: Site, day: int, living: list[tuple[int, int]], rng: np.random.Generator) -> None:
    """Run a tenant's day: a VM, a platform and a group start, and older ones end."""
    if day % shorten(3, 1) == 0:
        living.append((site.vm(owner=BOB), site.submit(top=f'name = "weather{day}"')))
    at_s = site.clock.seconds()
    site.wait(site.scheduler.world.database.run(lambda c: group(c, day, at_s, site.bob)))
    site.wait(site.scheduler.world.database.run(lambda c: limit_order(c, day, at_s, site.bob)))
    if len(living) > 1:
        vm, platform = living.pop(0)
        site.bench.ok("one.vm.action", "terminate-hard", vm)
        site.wait(site.manager.stop(platform, "ann"))
    for _ in range(round(DAY_S / INTERVAL_S)):
        site.bench.ok("one.vm.update", living[-1][0], f'MERKAT_BID_CPU="{rng.random()}"', 1)
        site.period()
        site.clock.pump([INTERVAL_S / 4] * 4)


def group(connection: sa.Connection, day: int, at_s: float, owner: int) -> None:
    """Store a group that has ended, with its VM."""
    values: dict[str, Any] = {"token": f"{day}", "name": "g", "owner": owner, "user_group": 1}
    values |= {"permissions": 0, "market": "default", "template": "CPU=1", "spending_rate": 1.0}
    made = group_store.add(connection, GroupRow(**values, nvm=1, created_s=at_s, ended_s=at_s))
    member = GroupMember(key=f"g{day}", vm_group=made.id, owner=owner, number=1, gone_s=at_s)
    GROUP_MEMBERS.add(connection, [member])


def limit_order(connection: sa.Connection, day: int, at_s: float, owner: int) -> None:
    """Store a limit order of a VM that is gone."""
    limit_order_store.add(
        connection,
        owner=owner,
        vms=[10**6 + day],
        limit=1.0,
        least_run_s=0.0,
        factor=1.0,
        stated_s=at_s,
    )


def rows(connection: sa.Connection) -> dict[str, int]:
    """Return the number of rows of each table."""
    count = sa.select(sa.func.count())
    return {table.name: connection.scalar(count.select_from(table)) or 0 for table in TABLES}


def test_neither_the_database_nor_the_duration_of_a_period_grows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No table has more rows in the last third of the time than in the second third."""
    monkeypatch.setattr(retain, "EVERY", EVERY)
    site = Site(
        rhythm=Rhythm(
            interval_s=INTERVAL_S,
            keep_allocations=round(KEPT_DAYS * DAY_S / INTERVAL_S),
            keep_history_s=HISTORY_DAYS * DAY_S,
        )
    )
    site.measure_hourly()
    rng = np.random.default_rng(1)
    living: list[tuple[int, int]] = []
    sizes: list[dict[str, int]] = []
    took_s: list[float] = []
    for day in range(DAYS):
        begun_s = time.process_time()
        churn(site, day, living, rng)
        took_s.append(time.process_time() - begun_s)
        sizes.append(site.read(rows))
    third = DAYS // 3
    grown = {}
    for name in sizes[0]:
        before = max(size[name] for size in sizes[third : 2 * third])
        after = max(size[name] for size in sizes[2 * third :])
        # The number of rows rises until the next deletion.
        if after > before * 1.15 + shorten(3, 1):
            grown[name] = (before, after)
    assert grown == {}
    # Use the shortest times: other processes can lengthen any of them.
    before_s, after_s = (
        float(np.quantile(part, 0.1)) for part in (took_s[third : 2 * third], took_s[2 * third :])
    )
    assert after_s < 1.5 * before_s
    assert site.read(audit).sound
    assert max(size["bid_words"] for size in sizes) > EVERY
    site.agree()
    site.close()
