"""Questions about the mode, the plan that waits for approval, and another scheduler's choices."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import sqlalchemy as sa

from merkatd.base.quantities import shown
from merkatd.cluster import Migrate
from merkatd.database.scheduler import comparison_store, plan_store
from merkatd.database.scheduler.order_store import Mode, Order
from merkatd.database.scheduler.plan_store import STANDING, PlanState, StoredPlan
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.arguments import Arguments, one_of, who, whole
from merkatd.service.base.errors import InvalidRequestError

_MODES = ("configured", *Mode)
_MOST_COMPARISONS = 10_000


class ModeQuestions:
    """The questions and orders of administrators about modes and plans."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.known: Mapping[str, Callable[[Arguments], Awaitable[Any]]] = {
            "mode": self._mode,
            "standing_plan": self._standing,
            "approve_plan": self._approve,
            "refuse_plan": self._refuse,
            "differences": self._differences,
        }

    async def _mode(self, arguments: Arguments) -> dict[str, Any]:
        """Return the mode; if `to` is given, change to that mode first."""
        scheduler, wanted = self._scheduler, one_of(arguments, "to", _MODES)
        changed = False
        if wanted is not None:
            changed = await scheduler.order(Order(f"mode {wanted}"), who(arguments))
            scheduler.wake()
        return await self.present() | {"changed": changed}

    async def present(self) -> dict[str, Any]:
        """Return the mode and the number of the waiting plan."""
        scheduler = self._scheduler
        plan = await scheduler.world.database.read(plan_store.newest)
        waits = plan is not None and plan.state is PlanState.WAITING
        return {
            "mode": str(scheduler.mode),
            "ordered": scheduler.ordered and str(scheduler.ordered),
            "configured": str(scheduler.world.acting.mode),
            "waiting_plan": plan.id if plan is not None and waits else None,
            "most_moves": scheduler.leave.moves,
        }

    async def _standing(self, _arguments: Arguments) -> dict[str, Any]:
        """Return the newest plan, in any state."""

        def read(connection: sa.Connection) -> StoredPlan | None:
            newest = plan_store.newest(connection)
            return None if newest is None else plan_store.followed(connection, newest)

        plan = await self._scheduler.world.database.read(read)
        if plan is None:
            hint = "" if self._scheduler.mode is Mode.ASK else "; only the mode ask makes plans"
            raise InvalidRequestError(f"there is no plan yet{hint}")
        return self._shown(plan)

    async def _approve(self, arguments: Arguments) -> dict[str, Any]:
        """Approve the waiting plan, without the steps whose numbers are in `skip`."""
        skipped = _numbers(arguments)
        mode = self._scheduler.mode
        if mode is not Mode.ASK:
            raise InvalidRequestError(
                f"plans can be approved only in mode ask (the mode is {mode})"
            )

        def give(connection: sa.Connection, plan: StoredPlan) -> None:
            strange = sorted(skipped - set(range(1, len(plan.steps) + 1)))
            if strange:
                raise InvalidRequestError(
                    f"skip: plan {plan.id} has no step {strange[0]}; its steps are 1 to"
                    f" {len(plan.steps)}"
                )
            at_s = self._scheduler.world.now()
            plan_store.approve(connection, plan, skipped, who(arguments), at_s)

        return await self._answered(arguments, give)

    async def _refuse(self, arguments: Arguments) -> dict[str, Any]:
        """Reject the waiting plan; the daemon does not propose the same plan again."""

        def give(connection: sa.Connection, plan: StoredPlan) -> None:
            plan_store.refuse(connection, plan, who(arguments), self._scheduler.world.now())

        return await self._answered(arguments, give)

    async def _answered(
        self, arguments: Arguments, give: Callable[[sa.Connection, StoredPlan], None]
    ) -> dict[str, Any]:
        """Approve or reject the waiting plan; if `plan` is given, it must be its number."""
        wanted = whole(arguments, "plan")

        def work(connection: sa.Connection) -> StoredPlan:
            newest = plan_store.newest(connection)
            plan = None if newest is None else plan_store.get(connection, newest.id)
            if plan is None or plan.state not in STANDING:
                raise InvalidRequestError("no plan waits for approval")
            if wanted not in {None, plan.id}:
                raise InvalidRequestError(f"plan {wanted} is no longer current: plan {plan.id} is")
            if plan.state is not PlanState.WAITING:
                raise InvalidRequestError(f"plan {plan.id} was already approved by {plan.who}")
            give(connection, plan)
            return plan_store.get(connection, plan.id) or plan

        plan = await self._scheduler.world.database.run(work)
        self._scheduler.wake()
        return self._shown(plan)

    def _shown(self, plan: StoredPlan) -> dict[str, Any]:
        """Return a plan, with the names of the hosts and VMs that the latest period saw."""
        hosts, vms = self._names()
        return {
            "plan": plan.id,
            "period": plan.period,
            "at_s": plan.made_s,
            "state": str(plan.state),
            "who": plan.who,
            "steps": [
                {
                    "number": number,
                    "kind": step.kind,
                    "vm": step.vm,
                    "name": vms.get(step.vm),
                    "source": hosts.get(step.source, step.source),
                    "host": hosts.get(step.host, step.host),
                    "reason": step.reason,
                    "skipped": step.skipped,
                    "became": step.became,
                }
                for number, step in enumerate(plan.steps, start=1)
            ],
        }

    def _names(self) -> tuple[Mapping[int | None, str], Mapping[int, str]]:
        latest = self._scheduler.latest
        if latest is None:
            return {}, {}
        seen = latest.seen.observation
        return (
            dict(zip(seen.host_id.tolist(), seen.host_name, strict=True)),
            dict(zip(seen.vm_id.tolist(), seen.vm_name, strict=True)),
        )

    async def _differences(self, arguments: Arguments) -> dict[str, Any]:
        """Return another scheduler's placements and moves, newest first, with Merkat's choices."""
        limit = min(whole(arguments, "limit") or 50, _MOST_COMPARISONS)
        found, agreed = await self._scheduler.world.database.read(
            lambda connection: (
                comparison_store.recent(connection, limit),
                comparison_store.agreement(connection),
            )
        )
        latest = self._scheduler.latest
        moves = 0 if latest is None else len(latest.decided.decision.plan.of(Migrate))
        return {
            "compared": agreed.placed,
            "same": agreed.placed_alike,
            "moved": agreed.moved,
            "moved_alike": agreed.moved_alike,
            "ours_alone": agreed.ours_alone,
            "would_move": moves if self._scheduler.mode is Mode.SHADOW else None,
            "vms": [
                {
                    "at_s": one.at_s,
                    "period": one.period,
                    "vm": one.vm,
                    "name": one.name,
                    "source": one.source,
                    "theirs": one.theirs,
                    "ours": one.ours,
                    "same": one.same,
                    "why": one.why,
                }
                for one in found
            ],
        }


def _numbers(arguments: Arguments) -> frozenset[int]:
    """Return the numbers in `skip`. Raise InvalidRequestError."""
    given = arguments.get("skip", [])
    fine = isinstance(given, list) and all(type(one) is int for one in given)
    if not fine or len(given) > _MOST_COMPARISONS:
        raise InvalidRequestError(f"skip: must be a list of steps' numbers (got {shown(given)})")
    return frozenset(given)
