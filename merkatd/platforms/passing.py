"""From one state to the next, in the database: what happened is written down with its reason."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from merkatd import ledger
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.platform_store import Doing, Platform
from merkatd.platforms.life import ENDS, Event, State, leads_to
from merkatd.platforms.turning import Happening

MANAGER = "manager"


def passed(
    connection: sa.Connection,
    platform: Platform,
    what: Happening | None,
    at_s: float,
    who: str = MANAGER,
    action: str | None = None,
) -> Platform:
    """The platform after what happened; as it was, where that can't happen in its state."""
    if what is None:
        return platform
    ending = State(platform.ending) if platform.ending else what.ending
    state = leads_to(State(platform.state), what.event, ending)
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
        "ending": str(what.ending) if state is State.STOPPING else None,
        "started_s": at_s if what.event is Event.START else platform.started_s,
    }
    platform_store.change(connection, platform.id, **values)
    text = why if state != State.POSTPONED or not what.needs else f"{why}; needed: {what.needs}"
    platform_store.add_action(
        connection,
        Doing(platform=platform.id, at_s=at_s, who=who, what=str(state), text=text, action=action),
    )
    if state in ENDS and platform.account is not None:
        ledger.end_application(connection, platform.account, at_s)
    return replace(platform, **values)


def resized(
    connection: sa.Connection,
    platform: Platform,
    sizes: Mapping[str, int],
    doing: Doing,
) -> Platform:
    """The platform with other sizes of its clusters."""
    merged = {**platform.sizes, **sizes}
    platform_store.change(connection, platform.id, sizes=merged)
    platform_store.add_action(connection, doing)
    return replace(platform, sizes=merged)


def _waits_on(connection: sa.Connection, platform: Platform, what: Happening) -> Platform:
    """It waits for something else than before, perhaps."""
    if (platform.why, platform.needs) == (what.why, what.needs):
        return platform
    platform_store.change(connection, platform.id, why=what.why, needs=what.needs)
    return replace(platform, why=what.why, needs=what.needs)
