"""Records of platforms' transitions and sizes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from merkatd import ledger
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.platform_store import PlatformAction, PlatformRow
from merkatd.platforms.rules.lifecycle_events import (
    ENDS,
    Event,
    LifecycleEvent,
    PlatformState,
    leads_to,
)

MANAGER = "manager"


def record_transition(
    connection: sa.Connection,
    platform: PlatformRow,
    what: LifecycleEvent | None,
    at_s: float,
    who: str = MANAGER,
    action: str | None = None,
) -> PlatformRow:
    """Record an event, and return the platform after it.

    The platform stays unchanged if the event can't happen in its state.
    """
    if what is None:
        return platform
    ending = PlatformState(platform.ending) if platform.ending else what.ending
    state = leads_to(PlatformState(platform.state), what.event, ending)
    if state is None:
        return platform
    if state == platform.state:
        return _waits_on(connection, platform, what)
    why = what.why or platform.why
    values: dict[str, Any] = {
        "state": str(state),
        "why": why,
        "needs": what.needs,
        "since_s": at_s,
        "ending": str(what.ending) if state is PlatformState.STOPPING else None,
        "started_s": at_s if what.event is Event.START else platform.started_s,
        "first_ran_s": _first_ran_s(platform, what, at_s),
    }
    platform_store.change(connection, platform.id, **values)
    is_postponed = state is PlatformState.POSTPONED and what.needs
    text = f"{why}; needed: {what.needs}" if is_postponed else why
    done = PlatformAction(
        platform=platform.id, at_s=at_s, who=who, what=str(state), text=text, action=action
    )
    platform_store.add_action(connection, done)
    if state in ENDS and platform.account is not None:
        ledger.end_application(connection, platform.account, at_s)
    return replace(platform, **values)


def _first_ran_s(platform: PlatformRow, what: LifecycleEvent, at_s: float) -> float | None:
    is_first = what.event is Event.UP and platform.first_ran_s is None
    return at_s if is_first else platform.first_ran_s


def record_size(
    connection: sa.Connection,
    platform: PlatformRow,
    sizes: Mapping[str, int],
    doing: PlatformAction,
) -> PlatformRow:
    """Record new sizes of a platform's clusters, and return the platform."""
    merged = {**platform.sizes, **sizes}
    platform_store.change(connection, platform.id, sizes=merged)
    platform_store.add_action(connection, doing)
    return replace(platform, sizes=merged)


def _waits_on(
    connection: sa.Connection, platform: PlatformRow, what: LifecycleEvent
) -> PlatformRow:
    """Record why a platform keeps waiting, if the reason or its needs have changed."""
    if (platform.why, platform.needs) == (what.why, what.needs):
        return platform
    platform_store.change(connection, platform.id, why=what.why, needs=what.needs)
    return replace(platform, why=what.why, needs=what.needs)
