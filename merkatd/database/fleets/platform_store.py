"""Tables of virtual platforms and of the actions on them."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.base.quantities import bounded_or_none
from merkatd.database.base.schema import LONG_TEXT, SERIAL, chunks, table
from merkatd.database.base.transactions import LostRaceError


class DoingColumns(TypedColumns):
    """The columns of `platform_doings`."""

    id: Named[int] = Column(SERIAL, primary_key=True)
    platform: Named[int] = Column(sa.BigInteger(), sa.ForeignKey("platforms.id"))
    at_s: Named[float] = Column(sa.Double())
    who: Named[str] = Column(sa.String(128))
    what: Named[str] = Column(sa.String(16))
    text: Named[str] = Column(LONG_TEXT)
    action: Named[str | None] = Column(sa.String(64))
    refused: Named[bool] = Column(sa.Boolean())


DOINGS = table(
    "platform_doings",
    DoingColumns,
    # NULLs are not equal to each other: actions without a controller's id don't conflict.
    sa.UniqueConstraint("platform", "action"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformAction:
    """An action on a platform, done or refused."""

    platform: int
    at_s: float
    who: str
    what: str
    text: str
    """The reason for the action, or for its refusal."""
    action: str | None = None
    """The controller's own id of the action."""
    refused: bool = False


def add_action(connection: sa.Connection, doing: PlatformAction) -> None:
    """Store an action, in the transaction in which it is done."""
    row = {name: getattr(doing, name) for name in _ACTION_NAMES}
    try:
        connection.execute(sa.insert(DOINGS), row)
    except sa.exc.IntegrityError as error:
        raise LostRaceError(f"another transaction stored action {doing.action} first") from error


def replace_action(connection: sa.Connection, doing: PlatformAction) -> None:
    """Store an action in place of the last one of its kind, so that repetitions take one row."""
    connection.execute(
        sa.delete(DOINGS).where(
            DOINGS.c.platform == doing.platform,
            DOINGS.c.what == doing.what,
            DOINGS.c.refused.is_(False),
        )
    )
    add_action(connection, doing)


def find_action(connection: sa.Connection, platform: int, action: str) -> PlatformAction | None:
    """Return the stored action of this id, if any."""
    query = sa.select(DOINGS).where(DOINGS.c.platform == platform, DOINGS.c.action == action)
    return next((_doing(row) for row in connection.execute(query)), None)


def recent(connection: sa.Connection, platform: int, limit: int = 20) -> tuple[PlatformAction, ...]:
    """Return the newest actions, newest first."""
    query = sa.select(DOINGS).where(DOINGS.c.platform == platform)
    rows = connection.execute(query.order_by(DOINGS.c.id.desc()).limit(limit))
    return tuple(_doing(row) for row in rows)


_ACTION_NAMES = ("platform", "at_s", "who", "what", "text", "action", "refused")


def _doing(row: sa.Row[Any]) -> PlatformAction:
    return PlatformAction(**{name: getattr(row, name) for name in _ACTION_NAMES})


OVER = ("done", "cancelled", "failed")
"""The final states."""
NOT_STORED: Final = -1
"""The id of a platform before the database assigns one."""
TROUBLE: Final = "trouble"
"""The key of a report under which the controller's current failure is stored."""
LISTED_OVER = 100
"""Maximum number of ended platforms in a list, the newest; older ones are found by id."""


class PlatformColumns(TypedColumns):
    """The columns of `platforms`."""

    id: Named[int] = Column(SERIAL, primary_key=True)
    token: Named[str] = Column(sa.String(64), unique=True)
    owner: Named[int] = Column(sa.Integer())
    name: Named[str] = Column(sa.String(64))
    account: Named[int | None] = Column(sa.BigInteger(), sa.ForeignKey("accounts.id"))
    template: Named[str] = Column(LONG_TEXT)
    vm_templates: Named[str] = Column(LONG_TEXT)
    state: Named[str] = Column(sa.String(16))
    why: Named[str] = Column(LONG_TEXT)
    needs: Named[str] = Column(LONG_TEXT)
    ending: Named[str | None] = Column(sa.String(16))
    held: Named[bool] = Column(sa.Boolean())
    submitted_s: Named[float] = Column(sa.Double())
    since_s: Named[float] = Column(sa.Double())
    started_s: Named[float | None] = Column(sa.Double())
    deadline_s: Named[float | None] = Column(sa.Double())
    sizes: Named[str] = Column(LONG_TEXT)
    report: Named[str | None] = Column(LONG_TEXT)
    memory: Named[str | None] = Column(LONG_TEXT)
    performance: Named[float | None] = Column(sa.Double())
    first_ran_s: Named[float | None] = Column(sa.Double())


PLATFORMS = table(
    "platforms",
    PlatformColumns,
    sa.Index(None, "state"),
    sa.Index(None, "owner"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformRow:
    """A virtual platform."""

    id: int = NOT_STORED
    """The platform's id, which is its application's; earlier platforms have ids of their own."""
    token: str
    """Token of the submission: a repeated submission creates no second platform."""
    owner: int
    name: str
    account: int | None
    """The account of its application, which pays for its VMs."""
    template: str
    """The template as submitted."""
    vm_templates: Mapping[str, str]
    """OpenNebula's VM template of each cluster."""
    state: str
    why: str = ""
    """The reason for its state."""
    needs: str = ""
    """The missing conditions for its start or resumption."""
    ending: str | None = None
    """Its state after all its VMs are gone."""
    held: bool = False
    """Whether its tenant suspended it: then only an order resumes it."""
    submitted_s: float
    since_s: float
    """When it entered its state."""
    started_s: float | None = None
    """When its conditions were met, and its VMs began to be created."""
    first_ran_s: float | None = None
    """When as many of its VMs as it needs ran for the first time."""
    deadline_s: float | None
    sizes: Mapping[str, int]
    """The number of VMs that each cluster should have."""
    report: Mapping[str, Any] | None = None
    """Its controller's latest report of its progress."""
    memory: Any = None
    """Data that its controller stores for its next start."""
    performance: float | None = None
    """The performance to reach, if its tenant changed the template's."""


_JSON = frozenset({"vm_templates", "sizes", "report", "memory"})
_PLATFORM_NAMES = tuple(field.name for field in fields(PlatformRow))
_EVERY = sa.select(PLATFORMS).order_by(PLATFORMS.c.id)
_LIVING = _EVERY.where(PLATFORMS.c.state.not_in(OVER))
_LIVING_OF = _LIVING.where(PLATFORMS.c.owner == sa.bindparam("its_owner"))
_LOCK_LIVING = _LIVING.with_for_update()
_LOCK_LIVING_OF = _LIVING_OF.with_for_update()
_GET = _EVERY.where(PLATFORMS.c.id == sa.bindparam("its_id"))
_LOCK = _GET.with_for_update()
_SUBMITTED = _EVERY.where(PLATFORMS.c.token == sa.bindparam("its_token"))
_OF_IDS = _EVERY.where(PLATFORMS.c.id.in_(sa.bindparam("ids", expanding=True)))
_IDS_IN = sa.select(PLATFORMS.c.id).where(PLATFORMS.c.id.in_(sa.bindparam("ids", expanding=True)))


def add(connection: sa.Connection, platform: PlatformRow) -> PlatformRow:
    """Store a new platform, and return it with its id: a given one, or the database's next."""
    row = {name: _stored(name, getattr(platform, name)) for name in _PLATFORM_NAMES}
    if platform.id == NOT_STORED:
        del row["id"]
    result = connection.execute(sa.insert(PLATFORMS).values(**row))
    given = result.inserted_primary_key
    if given is None:
        raise LookupError(f"the database assigned no id to platform {platform.name!r}")
    return replace(platform, id=int(given[0]))


def change(connection: sa.Connection, platform: int, **values: Any) -> None:
    """Change values of a platform, by the field names of `PlatformRow`."""
    row = {name: _stored(name, value) for name, value in values.items()}
    connection.execute(sa.update(PLATFORMS).where(PLATFORMS.c.id == platform).values(**row))


def get(connection: sa.Connection, platform: int) -> PlatformRow | None:
    """Return the platform of this id."""
    return next(iter(_selected(connection, _GET, its_id=platform)), None)


def submitted(connection: sa.Connection, token: str) -> PlatformRow | None:
    """Return the platform of this submission token."""
    return next(iter(_selected(connection, _SUBMITTED, its_token=token)), None)


def locked(connection: sa.Connection, platform: int) -> PlatformRow | None:
    """Return the platform and lock its row until the transaction ends."""
    return next(iter(_selected(connection, _LOCK, its_id=platform)), None)


def living(
    connection: sa.Connection, owner: int | None = None, *, lock: bool = False
) -> tuple[PlatformRow, ...]:
    """Return all platforms that have not ended, or an owner's, oldest first; lock them if asked."""
    if owner is None:
        return _selected(connection, _LOCK_LIVING if lock else _LIVING)
    return _selected(connection, _LOCK_LIVING_OF if lock else _LIVING_OF, its_owner=owner)


def remembered(connection: sa.Connection, since_s: float, most: int) -> frozenset[int]:
    """Return the ids of platforms that have not ended, or ended since then.

    Of the ended platforms, return each owner's `most` newest.
    """
    query = sa.select(PLATFORMS.c.id, PLATFORMS.c.owner, PLATFORMS.c.state).where(
        PLATFORMS.c.state.not_in(OVER) | (PLATFORMS.c.since_s >= since_s)
    )
    ids: set[int] = set()
    over = Counter[int]()
    for row in connection.execute(query.order_by(PLATFORMS.c.id.desc())):
        over[row.owner] += row.state in OVER
        if row.state not in OVER or over[row.owner] <= most:
            ids.add(row.id)
    return frozenset(ids)


def ids_in(connection: sa.Connection, ids: Iterable[int], states: Iterable[str]) -> tuple[int, ...]:
    """Return those of these platforms that are in one of these states."""
    query = _IDS_IN.where(PLATFORMS.c.state.in_([str(state) for state in states]))
    return tuple(
        platform
        for some in chunks(sorted(set(ids)))
        for platform in connection.scalars(query, {"ids": some})
    )


def of_ids(connection: sa.Connection, ids: Iterable[int]) -> tuple[PlatformRow, ...]:
    """Return the platforms of these ids, oldest first."""
    return _selected(connection, _OF_IDS, ids=sorted(set(ids)))


def listed(
    connection: sa.Connection, owner: int | None = None, over: int = LISTED_OVER
) -> tuple[PlatformRow, ...]:
    """Return the platforms that have not ended and the newest ended ones, oldest first.

    With `owner`, return only that owner's platforms.
    """
    mine = [] if owner is None else [PLATFORMS.c.owner == owner]
    ended = sa.select(PLATFORMS).where(PLATFORMS.c.state.in_(OVER), *mine)
    newest = connection.execute(ended.order_by(PLATFORMS.c.id.desc()).limit(over))
    rows = (*living(connection, owner), *map(_loaded, newest))
    return tuple(sorted(rows, key=lambda platform: platform.id))


def _selected(
    connection: sa.Connection, query: sa.Select[Any], **values: Any
) -> tuple[PlatformRow, ...]:
    return tuple(_loaded(row) for row in connection.execute(query, values))


def _stored(name: str, value: Any) -> Any:
    if name not in _JSON or (value is None and name in {"report", "memory"}):
        return value
    return json.dumps(value, sort_keys=True, allow_nan=False)


def _loaded(row: sa.Row[Any]) -> PlatformRow:
    values = {name: getattr(row, name) for name in _PLATFORM_NAMES}
    for name in _JSON:
        if values[name] is not None:
            values[name] = json.loads(values[name])
    values["deadline_s"] = bounded_or_none(values["deadline_s"])
    if values["report"] is not None:
        end_s = values["report"].get("projected_end_s")
        values["report"]["projected_end_s"] = bounded_or_none(end_s)
    return PlatformRow(**values)


def is_in_trouble(report: str | None) -> bool:
    """Return whether a stored report says that the platform's controller fails now."""
    return report is not None and bool(json.loads(report).get(TROUBLE))
