"""Periods that have begun, and steps that they decide."""

import sqlalchemy as sa

from merkatd.cluster import (
    Deploy,
)
from merkatd.database.scheduler import period_store


def begin_periods(connection: sa.Connection, count: int = 1) -> None:
    """Begin `count` periods."""
    for _ in range(count):
        period_store.begin(connection, 0.0, 0.0, hosts=1, vms=1)


def deploy(vm: int, period: int = 1, **more: tuple[str, ...]) -> Deploy:
    """Return the step that starts a VM on host 7."""
    return Deploy(period=period, vm=vm, host=7, reason="least load", **more)
