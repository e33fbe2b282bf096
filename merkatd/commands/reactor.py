"""Twisted's asyncio reactor, installed by the commands that run one and by nobody else."""

import time
from typing import Any


def asyncio_reactor() -> Any:
    """Install it; to be called once, before anything has imported the reactor.

    Its time only goes forward. Twisted's own is the wall clock: where that is set back by an hour,
    no call that was planned is made for an hour.
    """
    from twisted.internet import asyncioreactor  # noqa: PLC0415 - installing must come first
    from twisted.internet.main import installReactor  # noqa: PLC0415 - so must this

    class Steady(asyncioreactor.AsyncioSelectorReactor):
        seconds = staticmethod(time.monotonic)

    install: Any = installReactor  # Twisted gives it no type
    install(Steady())
    from twisted.internet import reactor  # noqa: PLC0415 - the one just installed

    return reactor
