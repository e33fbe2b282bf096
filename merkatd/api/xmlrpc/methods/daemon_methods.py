"""The methods about the daemon, modes and plans."""

from typing import Any

from merkatd.api.values.order_arguments import skipped_steps
from merkatd.api.values.plain_values import members
from merkatd.api.xmlrpc.method_table import Parameter, Returns, method, struct
from merkatd.service.base.callers import Caller
from merkatd.service.modes import ModeState
from merkatd.service.proposals.standing_plans import StandingPlan
from merkatd.service.services import DaemonServices

_NEWEST = 0
_PLAN = Parameter(
    "plan",
    "int",
    "The number of the waiting plan; the default, 0, accepts any.",
    _NEWEST,
)
_MODE = {
    "mode": "`dry` and `shadow`: the daemon executes no decisions. `ask`: it places, moves and"
    " suspends VMs after an administrator's approval. `on`: it executes all decisions.",
    "configured": "The mode in the configuration.",
    "ordered": "The mode that an order set instead, if any.",
    "waiting_plan": "The number of the waiting plan, if any.",
}
_STANDING = {
    "plan": "The plan's number.",
    "period": "The period that made the plan.",
    "at_s": "The time at which the plan was made, in seconds since the epoch.",
    "state": "`waiting`, `approved`, `done`, `refused`, or `replaced` by another plan.",
    "who": "The user that approved or rejected the plan, if any.",
    "reverses": "The number of the plan that it undoes, if it undoes one.",
    "shortfalls": "The sum of bid x shortfall of all VMs, by market, when the plan was made:"
    " structs of `market`, `before` and `after`.",
    "left_out": "Of a new reversal: the steps of the executed plan that it does not undo, structs"
    " of `number`, `kind`, `vm` and `reason`.",
    "steps": "Its steps, each a struct:",
}
_STEPS = {
    "number": "The step's number, as used in `skip`.",
    "kind": "`deploy`, `migrate`, `suspend`, ...",
    "vm": "The VM's id.",
    "name": "The VM's name, if the VM exists.",
    "source": "The host that the VM would leave, if any.",
    "host": "The host to which the VM would go.",
    "gain": "The gain of a migration, in the objective of its strategy.",
    "cost": "The cost of a period of a VM that starts, in credits.",
    "reason": "The reason for the step.",
    "skipped": "Whether the approval left the step out.",
    "became": "The outcome of the step, if known.",
}


@method(
    "merkat.daemon.info",
    returns=struct(
        "The state of the daemon.",
        {
            "mode": _MODE["mode"],
            "paused": "Whether the daemon is paused and starts no periods.",
            "standby": "The reason why another daemon is active instead, if so.",
            "period": "The number of the latest ended period, if any.",
            "at_s": "The time of that period, in seconds since the epoch.",
            "interval_s": "The length of a period in seconds.",
            "now_s": "The cloud's time, in seconds since the epoch.",
        },
    ),
    example="",
)
async def daemon_info(services: DaemonServices, _caller: Caller) -> Any:
    """Return whether the daemon is active, and which of its decisions it executes."""
    state = services.daemon.state()
    names = ("mode", "paused", "standby", "period", "at_s", "interval_s", "now_s")
    return {name: getattr(state, name) for name in names}


@method(
    "merkat.daemon.pause",
    returns=struct("The effect.", {"changed": "False if the daemon was paused already."}),
    example="",
    admin=True,
)
async def daemon_pause(services: DaemonServices, caller: Caller) -> Any:
    """Start no more periods, also after a restart; VMs keep running with their limits."""
    return {"changed": await services.daemon.pause(caller, caller.identity.name)}


@method(
    "merkat.daemon.resume",
    returns=struct("The effect.", {"changed": "False if the daemon was not paused."}),
    example="",
    admin=True,
)
async def daemon_resume(services: DaemonServices, caller: Caller) -> Any:
    """End a pause."""
    return {"changed": await services.daemon.resume(caller, caller.identity.name)}


@method("merkat.mode.info", returns=struct("The mode.", _MODE), example="", admin=True)
async def mode_info(services: DaemonServices, _caller: Caller) -> Any:
    """Return the mode, and whether the configuration or an order set it."""
    return _mode(await services.modes.mode())


@method(
    "merkat.mode.set",
    Parameter("mode", "string", "`dry`, `shadow`, `ask`, `on`, or `configured`."),
    returns=struct("The mode after the order.", _MODE),
    example='"configured"',
    admin=True,
)
async def mode_set(services: DaemonServices, caller: Caller, mode: str) -> Any:
    """Set the mode from the next period on, also after restarts; `configured` undoes this."""
    await services.modes.set_mode(caller, mode, caller.identity.name)
    return _mode(await services.modes.mode())


@method(
    "merkat.plan.info",
    returns=struct("The newest plan, in any state.", _STANDING, _STEPS),
    example="",
    admin=True,
)
async def plan_info(services: DaemonServices, caller: Caller) -> Any:
    """Return the newest plan of the mode ask."""
    return await _plan(services, await services.modes.standing_plan(caller))


@method(
    "merkat.plan.approve",
    _PLAN,
    Parameter(
        "skip", "struct", "The steps to leave out: `numbers`, an array of their numbers.", {}
    ),
    returns=struct("The plan after the approval.", _STANDING, _STEPS),
    example='plan, {"numbers": [1]}',
    admin=True,
)
async def plan_approve(
    services: DaemonServices, caller: Caller, plan: int, skip: dict[str, Any]
) -> Any:
    """Approve the waiting plan; the daemon checks each step again before it sends it."""
    skipped, by = skipped_steps(skip.get("numbers", [])), caller.identity.name
    return await _plan(services, await services.modes.approve(caller, by, _number(plan), skipped))


@method(
    "merkat.plan.refuse",
    _PLAN,
    returns=struct("The plan after the rejection.", _STANDING, _STEPS),
    example="plan",
    admin=True,
)
async def plan_refuse(services: DaemonServices, caller: Caller, plan: int) -> Any:
    """Reject the waiting plan; the daemon does not propose the same plan again."""
    by = caller.identity.name
    return await _plan(services, await services.modes.refuse(caller, by, _number(plan)))


@method(
    "merkat.plan.reverse",
    Parameter(
        "plan", "int", "The number of an executed plan; the default, 0, is the newest.", _NEWEST
    ),
    returns=struct("The new plan, which waits for an approval.", _STANDING, _STEPS),
    example="plan",
    admin=True,
)
async def plan_reverse(services: DaemonServices, caller: Caller, plan: int) -> Any:
    """Propose a plan that migrates the VMs of an executed plan back."""
    by = caller.identity.name
    return await _plan(services, await services.modes.reverse(caller, by, _number(plan)))


async def _plan(services: DaemonServices, plan: StandingPlan) -> Any:
    """Return a plan as plain values, made in a thread: it may have thousands of steps."""
    return await services.world.executor.run(lambda: members(plan))


def _number(plan: int) -> int | None:
    return None if plan == _NEWEST else plan


def _mode(modes: ModeState) -> dict[str, Any]:
    return {name: getattr(modes, name) for name in _MODE}


@method(
    "merkat.system.version",
    returns=Returns("string", "The version, like `0.1.0`.", {}, {}),
    example="",
)
async def system_version(services: DaemonServices, _caller: Caller) -> Any:
    """Return the version of Merkat."""
    return services.version
