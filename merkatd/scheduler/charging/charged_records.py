"""The input of all steps of a charge."""

from typing import NamedTuple

import sqlalchemy as sa

from merkatd.scheduler.charging.used_cpu import NewlyLimited
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed


class ChargeInput(NamedTuple):
    """The connection, the context and the records of a charge."""

    connection: sa.Connection
    world: PeriodContext
    seen: Observed
    limited: NewlyLimited
    at_s: float
    """The time stored with the charge; it marks the charge's work if the transaction is retried."""
