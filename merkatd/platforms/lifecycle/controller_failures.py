"""Failures of controllers: the reason for the tenant, and bids of 0 until the controller works.

A limit order keeps its limit for `LASTING_S`, as its VMs would be saved and started again.
"""

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa

from merkatd.database.fleets import platform_store
from merkatd.database.fleets.fleet_store import PLATFORM_VMS
from merkatd.database.fleets.platform_store import TROUBLE, PlatformAction, PlatformRow
from merkatd.database.scheduler import bid_store
from merkatd.database.scheduler.bid_store import Bid, BidSource
from merkatd.platforms.lifecycle.template_reader import parsed
from merkatd.platforms.lifecycle.transitions import MANAGER, record_transition
from merkatd.platforms.rules.lifecycle_events import ENDS, Event, LifecycleEvent, PlatformState

_CONTROLLER: Final = "controller"
_SINCE: Final = "trouble_s"
"""The key of a report under which the time of the first of the present failures is stored."""
LASTING_S: Final = 600.0
"""The time after which a failure lasts: the limit of the platform's order falls to nothing."""


def trouble_of(platform: PlatformRow) -> str:
    """Return why the platform's controller fails now; empty if it works."""
    return str((platform.report or {}).get(TROUBLE) or "")


def is_lasting(platform: PlatformRow, at_s: float) -> bool:
    """Return whether the platform's controller has failed for `LASTING_S`."""
    since_s = (platform.report or {}).get(_SINCE)
    return bool(trouble_of(platform)) and abs(at_s - float(since_s or 0.0)) >= LASTING_S


def fail(
    connection: sa.Connection, platform: PlatformRow, why: str, at_s: float, goods: Sequence[str]
) -> None:
    """Record that the controller ended, and set the bids of the platform's VMs to 0.

    Without a controller the old bids would spend the budget on work that may not go on.
    """
    doing = PlatformAction(platform=platform.id, at_s=at_s, who=_CONTROLLER, what="ended", text=why)
    platform_store.add_action(connection, doing)
    since_s = (platform.report or {}).get(_SINCE) or at_s
    report = {**(platform.report or {}), TROUBLE: why, _SINCE: since_s}
    platform_store.change(connection, platform.id, report=report)
    nothing = dict.fromkeys(goods, 0.0)
    members = PLATFORM_VMS.living(connection, platform.id)
    words = [
        Bid(vm=member.vm, bid=nothing, source=BidSource.CONTROLLER, at_s=at_s)
        for member in members
        if member.vm is not None
    ]
    bid_store.record_bids(connection, words)


def record_end(
    connection: sa.Connection,
    platform: int,
    why: str,
    at_s: float,
    goods: Sequence[str],
    *,
    final: bool,
) -> None:
    """Record the end of a platform's controller; `final`: it can't be kept running."""
    row = platform_store.locked(connection, platform)
    if row is None:
        return
    fail(connection, row, why, at_s, goods)
    if not final:
        return
    event = LifecycleEvent(
        event=Event.STOP,
        why=f"its controller can't be kept running: {why}",
        ending=PlatformState.FAILED,
    )
    record_transition(connection, row, event, at_s)


def record_monitor_end(
    connection: sa.Connection, platform: int, row: int, why: str, at_s: float
) -> None:
    """Record the end of a platform's monitor, if the platform exists."""
    stored = platform_store.locked(connection, platform)
    if stored is not None:
        monitor_failed(connection, stored, row, why, at_s)


def monitor_failed(
    connection: sa.Connection, platform: PlatformRow, row: int, why: str, at_s: float
) -> None:
    """Record that the monitor of the cluster at this row ended, replacing its last record."""
    if PlatformState(platform.state) in ENDS:
        return
    text = f"the monitor of cluster {parsed(platform.template).clusters[row].name} {why}"
    what = f"monitor {row}"
    doing = PlatformAction(platform=platform.id, at_s=at_s, who=MANAGER, what=what, text=text)
    platform_store.replace_action(connection, doing)


def recover(connection: sa.Connection, platform: PlatformRow) -> None:
    """Clear the failure: the controller acts again."""
    if trouble_of(platform):
        report = {**(platform.report or {}), TROUBLE: None, _SINCE: None}
        platform_store.change(connection, platform.id, report=report)
