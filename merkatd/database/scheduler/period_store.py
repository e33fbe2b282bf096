"""The table of periods: number, state, times, and strategies.

The transaction that stores an observation assigns its period the next number. The newest period is
never deleted, so no number is assigned twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import LONG_TEXT, table
from merkatd.database.base.transactions import LostRaceError


class PeriodState(StrEnum):
    """The state of a period."""

    OBSERVED = "observed"
    CONTINUED = "continued"
    """Observed, and the period before is charged: until the decision, its allocation continues."""
    DECIDED = "decided"
    ACTED = "acted"
    CHARGED = "charged"
    FAILED = "failed"
    WATCHED = "watched"
    """Decided in a mode that does nothing; never charged."""
    QUARANTINED = "quarantined"
    """Not charged because of an error; stays so until an administrator refunds it. Later periods
    are charged."""


_CHARGEABLE: Final = frozenset(
    {PeriodState.CONTINUED, PeriodState.DECIDED, PeriodState.ACTED},
)

_BEFORE: Final[Mapping[PeriodState, frozenset[PeriodState]]] = {
    PeriodState.CONTINUED: frozenset({PeriodState.OBSERVED}),
    PeriodState.DECIDED: frozenset({PeriodState.OBSERVED, PeriodState.CONTINUED}),
    PeriodState.ACTED: frozenset({PeriodState.DECIDED}),
    # A daemon that dies while it acts leaves VMs that run and have their shares.
    PeriodState.CHARGED: _CHARGEABLE,
    PeriodState.WATCHED: frozenset({PeriodState.OBSERVED}),
    PeriodState.QUARANTINED: _CHARGEABLE,
    PeriodState.FAILED: _CHARGEABLE | {PeriodState.OBSERVED, PeriodState.QUARANTINED},
}


class PeriodColumns(TypedColumns):
    """The columns of `periods`."""

    number: Named[int] = Column(sa.Integer(), primary_key=True, autoincrement=False)
    state: Named[str] = Column(sa.String(16))
    started_s: Named[float] = Column(sa.Double())
    observed_s: Named[float] = Column(sa.Double())
    decided_s: Named[float | None] = Column(sa.Double())
    acted_s: Named[float | None] = Column(sa.Double())
    charged_s: Named[float | None] = Column(sa.Double())
    failed_s: Named[float | None] = Column(sa.Double())
    hosts: Named[int] = Column(sa.Integer())
    vms: Named[int] = Column(sa.Integer())
    strategy: Named[str | None] = Column(sa.String(64))
    failure: Named[str | None] = Column(LONG_TEXT)


PERIODS = table(
    "periods",
    PeriodColumns,
    sa.Index(None, "started_s"),
    sa.Index(None, "state"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodRow:
    """A stored period; times of phases that have not happened are None."""

    number: int
    state: PeriodState
    started_s: float
    observed_s: float
    decided_s: float | None
    acted_s: float | None
    charged_s: float | None
    failed_s: float | None
    hosts: int
    """Number of observed hosts."""
    vms: int
    """Number of observed VMs."""
    strategy: str | None
    failure: str | None


class PeriodStateError(ValueError):
    """A period can't go from its state to the requested one."""


_COLUMNS = [PERIODS.c[name] for name in PeriodRow.__dataclass_fields__]

# Each period runs these statements many times: to build one takes longer than to run it.
_HIGHEST = sa.select(sa.func.max(PERIODS.c.number))
_GET = sa.select(*_COLUMNS).where(PERIODS.c.number == sa.bindparam("its_number"))
_RECENT = sa.select(*_COLUMNS).order_by(PERIODS.c.number.desc()).limit(sa.bindparam("most"))
_RECENT_IN_STATE = _RECENT.where(PERIODS.c.state == sa.bindparam("its_state"))
_TO_CHARGE = sa.union_all(
    *(
        sa.select(_RECENT.where(PERIODS.c.state == state).limit(100).subquery())
        for state in sorted(_CHARGEABLE)
    )
)
_CHARGED = _RECENT.where(PERIODS.c.state == PeriodState.CHARGED).limit(100).subquery()
_CHARGED_AT = (
    sa.select(_CHARGED.c.number)
    .where(_CHARGED.c.charged_s == sa.bindparam("at_s"))
    .order_by(_CHARGED.c.number.desc())
)
_NEWEST_DECIDED = (
    sa.select(PERIODS.c.number)
    .where(PERIODS.c.decided_s.is_not(None))
    .order_by(PERIODS.c.number.desc())
    .limit(1)
)
_ADVANCE = {
    after: sa.update(PERIODS).where(
        PERIODS.c.number == sa.bindparam("its_number"),
        PERIODS.c.state.in_([sa.literal(state) for state in sorted(before)]),
    )
    for after, before in _BEFORE.items()
}
_INSERT = sa.insert(PERIODS)


def begin(
    connection: sa.Connection, started_s: float, observed_s: float, hosts: int, vms: int
) -> int:
    """Store an observation and return the number of its new period."""
    newest = connection.scalar(_HIGHEST)
    number = 1 if newest is None else newest + 1
    row = {
        "number": number,
        "state": PeriodState.OBSERVED,
        "started_s": started_s,
        "observed_s": observed_s,
        "hosts": hosts,
        "vms": vms,
    }
    try:
        connection.execute(_INSERT, row)
    except sa.exc.IntegrityError as error:
        raise LostRaceError(f"another transaction started period {number} first") from error
    return number


def begun_by(connection: sa.Connection, started_s: float, observed_s: float) -> int | None:
    """Return the newest period if it has only this observation, else None."""
    period = newest(connection)
    if period is None or period.state is not PeriodState.OBSERVED:
        return None
    return (
        period.number if (period.started_s, period.observed_s) == (started_s, observed_s) else None
    )


def decided_at(connection: sa.Connection, number: int, at_s: float) -> bool:
    """Return whether the last event of the period is a decision of this time."""
    period = get(connection, number)
    states = {PeriodState.DECIDED, PeriodState.WATCHED}
    return period is not None and period.state in states and period.decided_s == at_s


def continued(connection: sa.Connection, number: int) -> None:
    """Store that the earlier allocation continues; call it in the transaction of its charge."""
    _advance(connection, number, PeriodState.CONTINUED)


def decided(
    connection: sa.Connection,
    number: int,
    at_s: float,
    strategy: str,
) -> None:
    """Store that a decision was made."""
    _advance(connection, number, PeriodState.DECIDED, decided_s=at_s, strategy=strategy)


def watched(connection: sa.Connection, number: int, at_s: float, strategy: str) -> None:
    """Store a decision that is not carried out."""
    _advance(connection, number, PeriodState.WATCHED, decided_s=at_s, strategy=strategy)


def acted(connection: sa.Connection, number: int, at_s: float) -> None:
    """Store that all steps that could be sent were sent."""
    _advance(connection, number, PeriodState.ACTED, acted_s=at_s)


def charged(connection: sa.Connection, number: int, at_s: float) -> None:
    """Store that the period was charged, in the transaction of its charges."""
    _advance(connection, number, PeriodState.CHARGED, charged_s=at_s)


def failed(connection: sa.Connection, number: int, at_s: float, why: str) -> None:
    """Store that the period failed, with the reason."""
    _advance(connection, number, PeriodState.FAILED, failed_s=at_s, failure=why)


def give_up(connection: sa.Connection, number: int, at_s: float, why: str) -> None:
    """Store why the period ended, unless it decided.

    A continued period keeps its state, because it is still to be charged.
    """
    present = get(connection, number)
    if present is None:
        return
    if present.state is PeriodState.OBSERVED:
        failed(connection, number, at_s, why)
    elif present.state is PeriodState.CONTINUED:
        changed = sa.update(PERIODS).where(PERIODS.c.number == number)
        connection.execute(changed.values(failed_s=at_s, failure=why))


def quarantine(connection: sa.Connection, number: int, at_s: float, why: str) -> None:
    """Store that the period could not be charged, with the reason."""
    _advance(connection, number, PeriodState.QUARANTINED, failed_s=at_s, failure=why)


def close_quarantine(connection: sa.Connection, number: int, at_s: float, why: str) -> bool:
    """Mark a quarantined period as failed; return whether it was in quarantine."""
    present = get(connection, number)
    if present is None or present.state is not PeriodState.QUARANTINED:
        return False
    failed(connection, number, at_s, why)
    return True


def waits_for_charge(connection: sa.Connection, number: int) -> bool:
    """Return whether the period is stored and may still be charged."""
    present = get(connection, number)
    return present is not None and present.state in _CHARGEABLE | {PeriodState.OBSERVED}


def first_from(connection: sa.Connection, number: int) -> PeriodRow | None:
    """Return the oldest period with this number or a later one."""
    query = sa.select(*_COLUMNS).where(PERIODS.c.number >= number)
    return _one(connection, query.order_by(PERIODS.c.number).limit(1))


def first_since(connection: sa.Connection, started_s: float) -> int | None:
    """Return the number of the oldest period that started then or later."""
    query = sa.select(sa.func.min(PERIODS.c.number)).where(PERIODS.c.started_s >= started_s)
    return connection.scalar(query)


def spaced(connection: sa.Connection, since_s: float, slot_s: int) -> tuple[int, ...]:
    """Return the first period of each slot of whole seconds since then, oldest first."""
    slot = sa.cast(PERIODS.c.started_s, sa.BigInteger()) // slot_s
    query = sa.select(sa.func.min(PERIODS.c.number)).where(PERIODS.c.started_s >= since_s)
    return tuple(sorted(connection.scalars(query.group_by(slot))))


def to_charge(connection: sa.Connection, before: int) -> tuple[PeriodRow, ...]:
    """Return the periods before this one that are still to be charged, oldest first."""
    due = [_period(row) for row in connection.execute(_TO_CHARGE) if row.number < before]
    return tuple(sorted(due, key=lambda period: period.number))


def charged_at(connection: sa.Connection, at_s: float) -> tuple[int, ...]:
    """Return those of the newest charged periods that were charged at this time, newest first."""
    return tuple(connection.scalars(_CHARGED_AT, {"at_s": at_s}))


def quarantined(connection: sa.Connection) -> tuple[PeriodRow, ...]:
    """Return the newest periods in quarantine, newest first."""
    return recent(connection, 100, PeriodState.QUARANTINED)


def get(connection: sa.Connection, number: int) -> PeriodRow | None:
    """Return the period of this number."""
    return _one(connection, _GET, its_number=number)


def newest(connection: sa.Connection) -> PeriodRow | None:
    """Return the newest period."""
    return _one(connection, _RECENT, most=1)


def observed(connection: sa.Connection, before: int, limit: int) -> tuple[float, ...]:
    """Return the observation times of the last periods before this one, oldest first."""
    query = sa.select(PERIODS.c.observed_s).where(PERIODS.c.number < before)
    rows = connection.scalars(query.order_by(PERIODS.c.number.desc()).limit(limit))
    return tuple(reversed(rows.all()))


def newest_decided(connection: sa.Connection) -> int | None:
    """Return the number of the newest period with a decision."""
    return connection.scalar(_NEWEST_DECIDED)


def recent(
    connection: sa.Connection, limit: int, state: PeriodState | None = None
) -> tuple[PeriodRow, ...]:
    """Return the newest periods, newest first; with `state`, only those in that state."""
    if state is None:
        rows = connection.execute(_RECENT, {"most": limit})
    else:
        rows = connection.execute(_RECENT_IN_STATE, {"most": limit, "its_state": state})
    return tuple(_period(row) for row in rows)


def _advance(connection: sa.Connection, number: int, state: PeriodState, **values: Any) -> None:
    change = {"its_number": number, "state": state, **values}
    result = connection.execute(_ADVANCE[state], change)
    if result.rowcount == 1:
        return
    present = get(connection, number)
    times = {name: value for name, value in values.items() if name.endswith("_s")}
    same = all(getattr(present, name, None) == at_s for name, at_s in times.items())
    if same and present is not None and present.state is state:
        return  # an earlier attempt of the same transaction was committed, but not confirmed
    actual = "does not exist" if present is None else f"is {present.state}"
    needed = " or ".join(sorted(_BEFORE[state]))
    raise PeriodStateError(f"period {number} {actual}; to become {state} it must be {needed}")


def _one(connection: sa.Connection, query: sa.Select[Any], **values: Any) -> PeriodRow | None:
    row = connection.execute(query, values).one_or_none()
    return None if row is None else _period(row)


def _period(row: sa.Row[Any]) -> PeriodRow:
    values = dict(zip(PeriodRow.__dataclass_fields__, row, strict=True))
    values["state"] = PeriodState(values["state"])
    return PeriodRow(**values)
