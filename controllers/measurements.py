"""The names of what monitors measure and controllers read."""

from typing import Final

ABSENT: Final = "absent/"


MADE: Final = "made/"
ENDED: Final = "ended/"


LATEST: Final = 5


JOBS: Final = "jobs/"
CLOSED: Final = "closed/"
