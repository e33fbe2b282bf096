"""An executor that knows whether a call runs beside the reactor."""

from collections.abc import Callable
from typing import TypeVar

from twisted.internet.defer import Deferred

from merkatd.base.clock import Inline

Result = TypeVar("Result")


class Beside(Inline):
    """Runs calls at once, and knows when it does."""

    def __init__(self) -> None:
        self.busy = False

    def run(self, call: Callable[[], Result]) -> Deferred[Result]:
        """Run the call here and now."""
        self.busy = True
        try:
            return super().run(call)
        finally:
            self.busy = False
