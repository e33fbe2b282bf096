"""Twisted's asyncio reactor, installed by the commands that run one and by nobody else."""

from typing import Any


def asyncio_reactor() -> Any:
    """Install it; to be called once, before anything has imported the reactor."""
    from twisted.internet import asyncioreactor  # noqa: PLC0415 - installing must come first

    install: Any = asyncioreactor.install  # Twisted gives it no type
    install()
    from twisted.internet import reactor  # noqa: PLC0415 - the one just installed

    return reactor
