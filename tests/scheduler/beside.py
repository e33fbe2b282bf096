"""An executor that records whether a call runs beside the reactor."""

from collections.abc import Callable
from typing import TypeVar

from twisted.internet.defer import Deferred

from merkatd.base.clock import Inline

Result = TypeVar("Result")


class Beside(Inline):
    """Run calls at once, and set `busy` during each call."""

    def __init__(self) -> None:
        self.busy = False

    def run(self, call: Callable[[], Result]) -> Deferred[Result]:
        """Run the call immediately, in this thread."""
        self.busy = True
        try:
            return super().run(call)
        finally:
            self.busy = False
