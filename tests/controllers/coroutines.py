"""Coroutines that wait for nothing: an event loop for each would take longer than their work."""

from collections.abc import Coroutine
from typing import Any


def finish(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end. Raise AssertionError if it waits for something."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("the coroutine waits for something")
