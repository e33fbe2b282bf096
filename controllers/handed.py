"""What a process is handed by the daemon when it is started."""

import os

from merkatd.bus.keys import Passport
from merkatd.bus.peer import passport_of
from merkatd.platforms.processes.program import SECRET_FD

_MOST_BYTES = 1 << 16


def passport() -> Passport:
    """The passport of this process; it can be taken once, and nobody started later sees it."""
    number = os.environ.pop(SECRET_FD, None)
    if number is None:
        raise ValueError("this is to be started by the daemon")
    with os.fdopen(int(number), "rb") as handed:
        return passport_of(handed.read(_MOST_BYTES).decode())
