"""The control socket's questions about the daemon, its mode and its plans, and orders to it."""

from collections.abc import Awaitable, Callable
from typing import Any

from merkatd.api.values.order_arguments import skipped_steps
from merkatd.api.values.plain_values import members
from merkatd.base.quantities import LATEST_S
from merkatd.protocol.control_messages import ORDER_KINDS
from merkatd.service.base.arguments import Arguments, number, one_of, order_author, text, whole
from merkatd.service.base.callers import LOCAL, Caller
from merkatd.service.daemon_control import HostOrder
from merkatd.service.proposals.standing_plans import StandingPlan
from merkatd.service.services import DaemonServices

Row = dict[str, Any]
"""An answer for JSON."""
_FEW = 50
"""The compared VMs in an answer, unless `limit` is given."""


class ControlQuestions:
    """The questions about the daemon, and administrators' orders."""

    def __init__(self, services: DaemonServices) -> None:
        self._daemon = services.daemon
        self._modes = services.modes
        self._services = services
        self._strategies_service = services.strategies
        self.known = {
            "status": self.status,
            "pause": self._pause,
            "resume": self._resume,
            "drain": self._drain,
            "undrain": self._undrain,
            "snapshot": self._snapshot,
            "strategies": self._strategies,
            "mode": self._mode,
            "standing_plan": self._standing,
            "approve_plan": self._approve,
            "refuse_plan": self._refuse,
            "reverse_plan": self._reverse,
            "differences": self._differences,
            "orders": self._orders,
        }

    async def status(self, _arguments: Arguments) -> Row:
        """Return the state of the daemon, and the latest prices."""
        status = await self._daemon.status()
        waiting = (await self._modes.mode()).waiting_plan
        return members(status.stored) | members(status.state) | {"waiting_plan": waiting}

    async def _pause(self, arguments: Arguments) -> bool:
        """Start no more periods until `resume`; return False if the daemon was paused already."""
        return await self._daemon.pause(LOCAL, order_author(arguments))

    async def _resume(self, arguments: Arguments) -> bool:
        """End a pause; return False if the daemon was not paused."""
        return await self._daemon.resume(LOCAL, order_author(arguments))

    async def _drain(self, arguments: Arguments) -> Row:
        """Migrate the VMs of `host` away and place none there."""
        return await _order_host(self._daemon.drain, arguments)

    async def _undrain(self, arguments: Arguments) -> Row:
        """Place VMs on `host` again."""
        return await _order_host(self._daemon.undrain, arguments)

    async def _snapshot(self, _arguments: Arguments) -> str:
        """Return the snapshot of the latest decision as JSON text."""
        return await self._daemon.snapshot(LOCAL)

    async def _strategies(self, _arguments: Arguments) -> list[Row]:
        """Return what each strategy declares, its settings by market, and what the cloud lacks."""
        return [members(each) for each in self._strategies_service.strategies(LOCAL)]

    async def _mode(self, arguments: Arguments) -> Row:
        """Return the mode; if `to` is given, change to that mode first."""
        wanted, changed = text(arguments, "to"), False
        if wanted is not None:
            changed = await self._modes.set_mode(LOCAL, wanted, order_author(arguments))
        return members(await self._modes.mode()) | {"changed": changed}

    async def _standing(self, _arguments: Arguments) -> Row:
        """Return the newest plan, in any state."""
        return await self._plan_row(await self._modes.standing_plan(LOCAL))

    async def _approve(self, arguments: Arguments) -> Row:
        """Approve the waiting `plan`, without the steps whose numbers are in `skip`."""
        skipped = skipped_steps(arguments.get("skip", []))
        plan = arguments.get("plan")
        by = order_author(arguments)
        return await self._plan_row(await self._modes.approve(LOCAL, by, plan, skipped))

    async def _refuse(self, arguments: Arguments) -> Row:
        """Reject the waiting `plan`; the daemon does not propose the same plan again."""
        by, plan = order_author(arguments), arguments.get("plan")
        return await self._plan_row(await self._modes.refuse(LOCAL, by, plan))

    async def _reverse(self, arguments: Arguments) -> Row:
        """Propose a plan that undoes an executed `plan`, by default the newest."""
        by, plan = order_author(arguments), arguments.get("plan")
        return await self._plan_row(await self._modes.reverse(LOCAL, by, plan))

    async def _plan_row(self, plan: StandingPlan) -> Row:
        """Return a plan as plain values; one of 5,000 steps takes 0.2 s, so in a thread."""
        return await self._services.world.executor.run(lambda: members(plan))

    async def _orders(self, arguments: Arguments) -> list[Row]:
        """Return administrators' orders, newest first, by kind, host or time."""
        orders = await self._daemon.orders(
            LOCAL,
            whole(arguments, "limit") or _FEW,
            one_of(arguments, "kind", ORDER_KINDS),
            number(arguments, "since_s", LATEST_S),
            text(arguments, "host"),
        )
        return [members(order) for order in orders]

    async def _differences(self, arguments: Arguments) -> Row:
        """Return another scheduler's placements and moves, newest first, with Merkat's choices."""
        limit = whole(arguments, "limit") or _FEW
        return members(await self._modes.differences(LOCAL, limit))


async def _order_host(
    order: Callable[[Caller, str | None, str], Awaitable[HostOrder]], arguments: Arguments
) -> Row:
    return members(await order(LOCAL, arguments.get("host"), order_author(arguments)))
