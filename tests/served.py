"""The services of a scheduler in virtual time, and the control socket's questions about them."""

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
    """Stands for OpenNebula where a test needs none."""
    raise AssertionError("nothing is to be asked of OpenNebula")


def services_at(
    scheduler: Scheduler,
    manager: Manager | None = None,
    keeper: Keeper | None = None,
    ask: Ask = nothing_asked,
    sign_ins: SignIns | None = None,
) -> DaemonServices:
    """The services of this scheduler; without sign-ins, no user can sign in."""
    nobody: Any = sign_ins
    return services_of(scheduler, nobody, OrderCounts(Clock()), ask, "1", manager, keeper)


def questions_at(
    scheduler: Scheduler, manager: Manager | None = None, ask: Ask = nothing_asked
) -> DaemonQuestions:
    """What the control socket answers about this scheduler."""
    return DaemonQuestions(services_at(scheduler, manager, ask=ask))
