"""The services of a scheduler in virtual time, and the control socket's questions to them."""

from typing import Any

from twisted.internet.task import Clock

from merkatd.api.control.control_questions import DaemonQuestions
from merkatd.fleets.vm_template_text import Ask
from merkatd.groups.group_keeper import Keeper
from merkatd.platforms.manager import Manager
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.identity import SignIns
from merkatd.service.base.order_limits import OrderCounts
from merkatd.service.services import DaemonServices, services_of


async def nothing_asked(*_: Any) -> Any:
    """Replace OpenNebula in a test that must not call it."""
    raise AssertionError("the test must not call OpenNebula")


def services_at(
    scheduler: Scheduler,
    manager: Manager | None = None,
    keeper: Keeper | None = None,
    ask: Ask = nothing_asked,
    sign_ins: SignIns | None = None,
) -> DaemonServices:
    """Return the services of this scheduler; without sign-ins, no user can sign in."""
    unchecked: Any = sign_ins
    return services_of(scheduler, unchecked, OrderCounts(Clock()), ask, "1", manager, keeper)


def questions_at(
    scheduler: Scheduler, manager: Manager | None = None, ask: Ask = nothing_asked
) -> DaemonQuestions:
    """Return the control socket's questions about this scheduler."""
    return DaemonQuestions(services_at(scheduler, manager, ask=ask))
