"""The questions of the control socket by name: adapters of the services.

An adapter reads its arguments, calls a service as LOCAL, and returns a value for JSON.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from merkatd.api.control.account_questions import AccountQuestions
from merkatd.api.control.daemon_questions import ControlQuestions
from merkatd.api.control.limit_order_questions import LimitOrderQuestions
from merkatd.api.control.listing_questions import ListingQuestions
from merkatd.api.control.market_questions import MarketQuestions
from merkatd.api.control.platform_questions import PlatformQuestions
from merkatd.api.control.report_questions import ReportQuestions
from merkatd.base.quantities import quoted_value
from merkatd.service.base.arguments import Arguments
from merkatd.service.base.callers import LOCAL
from merkatd.service.base.errors import InvalidRequestError, RequestError
from merkatd.service.services import DaemonServices

Answer = Callable[[Arguments], Awaitable[Any]]
_ORDERS = frozenset(
    {
        "bid",
        "budget",
        "limit_order_change",
        "limit_order_delete",
        "limit_order_set",
        "platform_submit",
        "platform_update",
    }
)
"""Questions whose refusals are kept."""
NEWEST_STEPS = 20
"""The steps in an overview."""


class Questions(Protocol):
    """A table that answers questions by name."""

    async def answer(self, question: str, arguments: Mapping[str, Any]) -> Any:
        """Return the answer as a value that JSON can represent. Raise RequestError."""


class DaemonQuestions:
    """The questions of a daemon."""

    def __init__(self, services: DaemonServices) -> None:
        self._services = services
        known: dict[str, Answer] = {
            "overview": self._overview,
            **ListingQuestions(services).known,
            **MarketQuestions(services).known,
            **LimitOrderQuestions(services).known,
            **ControlQuestions(services).known,
            **AccountQuestions(services.accounts).known,
            **ReportQuestions(services).known,
        }
        if services.platforms is not None:
            known |= PlatformQuestions(services, services.platforms).known
        self._known: Mapping[str, Answer] = known

    async def answer(self, question: str, arguments: Mapping[str, Any]) -> Any:
        """Return the answer to the question of this name. Raise RequestError."""
        function = self._known.get(question)
        if function is None:
            raise InvalidRequestError(
                f"unknown question {quoted_value(question)}: the daemon and the command must have"
                " the same version"
            )
        try:
            return await function(arguments)
        except RequestError as error:
            if question in _ORDERS:
                self._services.refusals.note(LOCAL, question, str(error))
            raise

    async def _overview(self, _arguments: Arguments) -> dict[str, Any]:
        """Return all data of a live view, read at the same moment."""
        status = await self.answer("status", {})
        if self._services.scheduler.latest is None:
            return {"status": status, "price": [], "hosts": [], "vms": [], "steps": []}
        return {
            "status": status,
            "price": await self.answer("price", {}),
            "hosts": await self.answer("hosts", {}),
            "vms": await self.answer("vms", {}),
            "steps": await self.answer("steps", {"limit": NEWEST_STEPS}),
        }
