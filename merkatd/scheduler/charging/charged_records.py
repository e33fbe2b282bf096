"""The records that a charge reads, and those that it writes."""

from typing import NamedTuple

import sqlalchemy as sa

from merkatd.scheduler.base.ports import Histories
from merkatd.scheduler.charging.used_cpu import Limited
from merkatd.scheduler.context import World
from merkatd.scheduler.observation.observed import Seen


class Books(NamedTuple):
    """What each step of a charge needs."""

    connection: sa.Connection
    world: World
    seen: Seen
    histories: Histories
    limited: Limited
    at_s: float
    """When they are written: the sign of what this charge has done, where it is run again."""
