"""The records that a charge reads, and those that it writes."""

from typing import NamedTuple

import sqlalchemy as sa

from merkatd.scheduler.base.ports import Histories
from merkatd.scheduler.charging.used_cpu import Limited
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed


class Books(NamedTuple):
    """What each step of a charge needs."""

    connection: sa.Connection
    world: PeriodContext
    seen: Observed
    histories: Histories
    limited: Limited
    at_s: float
    """When they are written: the sign of what this charge has done, where it is run again."""
