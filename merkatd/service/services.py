"""The services of a daemon that its interfaces (control socket, XML-RPC, web) use."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from merkatd.base.quantities import shown
from merkatd.ledger import Ledger
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.period import Scheduler
from merkatd.service.account_rows import Names
from merkatd.service.accounts import MoneyQuestions
from merkatd.service.base.arguments import Arguments
from merkatd.service.base.errors import QuestionError
from merkatd.service.base.identity import Logins
from merkatd.service.base.order_limits import OrderCounts
from merkatd.service.base.period_view import PeriodViews
from merkatd.service.base.turns import FairTurns
from merkatd.service.daemon_control import ItselfQuestions
from merkatd.service.groups import GroupQuestions
from merkatd.service.market.listings import PresentQuestions
from merkatd.service.market.prices import PastQuestions
from merkatd.service.modes import ModeQuestions
from merkatd.service.platforms import PlatformQuestions

NEWEST_STEPS = 20
"""The steps in an overview."""


class Questions(Protocol):
    """A service that answers questions by name."""

    async def answer(self, question: str, arguments: Mapping[str, Any]) -> Any:
        """Return the answer as a value that JSON can represent. Raise QuestionError."""


class DaemonQuestions:
    """The questions of a daemon with its scheduler."""

    def __init__(
        self,
        scheduler: Scheduler,
        platforms: PlatformQuestions | None = None,
    ) -> None:
        """`platforms` answers the questions about platforms, if the daemon supports them."""
        self._scheduler = scheduler
        self.platforms = platforms
        self.preparing = PeriodViews(scheduler)
        self.modes = ModeQuestions(scheduler)
        self._itself = ItselfQuestions(scheduler, self.preparing, self.modes)
        self._present = PresentQuestions(scheduler, self.preparing)
        self._past = PastQuestions(scheduler, self.preparing)
        world = scheduler.world
        self.ledger = Ledger(world.database, world.now, world.money)
        money = MoneyQuestions(self.ledger, world.now, self.names)
        self._known: Mapping[str, Callable[[Arguments], Awaitable[Any]]] = {
            "overview": self._overview,
            **self._itself.known,
            **self.modes.known,
            **self._present.known,
            **self._past.known,
            **money.known,
            **({} if platforms is None else platforms.known),
        }

    @property
    def world(self) -> PeriodContext:
        """Return the context with the rules in force, including a reloaded configuration's."""
        return self._scheduler.world

    def in_memory(self) -> dict[str, Any]:
        """Return the part of the status that needs no database."""
        return self._itself.in_memory()

    async def answer(self, question: str, arguments: Mapping[str, Any]) -> Any:
        """Return the answer to the question of this name. Raise QuestionError."""
        found = self._known.get(question)
        if found is None:
            known = ", ".join(sorted(self._known))
            raise QuestionError(f"unknown question {shown(question)}; known: {known}")
        return await found(arguments)

    async def _overview(self, _arguments: Arguments) -> dict[str, Any]:
        """Return all data of a live view, read at the same moment."""
        status = await self._itself.status({})
        if self._scheduler.latest is None:
            return {"status": status, "price": [], "hosts": [], "vms": [], "steps": []}
        return {
            "status": status,
            "price": await self._past.price({}),
            "hosts": await self._present.hosts({}),
            "vms": await self._present.vms({}),
            "steps": await self._past.steps({"limit": NEWEST_STEPS}),
        }

    def names(self) -> Names:
        """Return the names of users and groups that the last period saw."""
        latest = self._scheduler.latest
        if latest is None:
            return Names()
        return Names(latest.seen.observation.owner_name, latest.seen.observation.group_name)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class DaemonServices:
    """The services that the XML-RPC methods use."""

    questions: DaemonQuestions
    preparing: PeriodViews
    ledger: Ledger
    logins: Logins
    version: str
    orders: OrderCounts
    groups: GroupQuestions | None = None
    long_reads: FairTurns = field(default_factory=lambda: FairTurns(2, per_key=1))
    """Turns for long reads, one per user at a time: reads that can take a thread a second, and
    reads that grow with a tenant's VMs. The other threads stay free for other calls."""

    @property
    def world(self) -> PeriodContext:
        """Return the context with the rules in force; a reload replaces them."""
        return self.questions.world
