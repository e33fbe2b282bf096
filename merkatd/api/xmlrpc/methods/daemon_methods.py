"""The methods about the daemon, modes and plans."""

from typing import Any

from merkatd.api.xmlrpc.method_table import Parameter, Returns, method, struct
from merkatd.service.base.callers import Caller
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
    "at_s": "The time at which it was made, in seconds since the epoch.",
    "state": "`waiting`, `approved`, `done`, `refused`, or `replaced` by another plan.",
    "who": "The user that approved or rejected it, if any.",
    "steps": "Its steps, each a struct:",
}
_STEPS = {
    "number": "The step's number, as used in `skip`.",
    "kind": "`deploy`, `migrate`, `suspend`, ...",
    "vm": "The VM's id.",
    "name": "The VM's name, if the VM exists.",
    "source": "The host that the VM would leave, if any.",
    "host": "The host to which the VM would go.",
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
        },
    ),
    example="",
)
async def daemon_info(house: DaemonServices, _caller: Caller) -> Any:
    """Return whether the daemon is active, and which of its decisions it executes."""
    found = await house.answer("status", {})
    names = ("mode", "paused", "standby", "period", "at_s", "interval_s")
    return _there({name: found[name] for name in names})


@method(
    "merkat.daemon.pause",
    returns=struct("The effect.", {"changed": "False if the daemon was paused already."}),
    example="",
    admin=True,
)
async def daemon_pause(house: DaemonServices, caller: Caller) -> Any:
    """Start no more periods, also after a restart; VMs keep running with their limits."""
    return {"changed": await house.answer("pause", _who(caller))}


@method(
    "merkat.daemon.resume",
    returns=struct("The effect.", {"changed": "False if the daemon was not paused."}),
    example="",
    admin=True,
)
async def daemon_resume(house: DaemonServices, caller: Caller) -> Any:
    """End a pause."""
    return {"changed": await house.answer("resume", _who(caller))}


@method("merkat.mode.info", returns=struct("The mode.", _MODE), example="", admin=True)
async def mode_info(house: DaemonServices, _caller: Caller) -> Any:
    """Return the mode, and whether the configuration or an order set it."""
    return _mode(await house.answer("mode", {}))


@method(
    "merkat.mode.set",
    Parameter("mode", "string", "`dry`, `shadow`, `ask`, `on`, or `configured`."),
    returns=struct("The mode after the order.", _MODE),
    example='"configured"',
    admin=True,
)
async def mode_set(house: DaemonServices, caller: Caller, mode: str) -> Any:
    """Set another mode from the next period on; it stays after restarts, until `configured`."""
    return _mode(await house.answer("mode", {"to": mode, **_who(caller)}))


@method(
    "merkat.plan.info",
    returns=struct("The newest plan, in any state.", _STANDING, _STEPS),
    example="",
    admin=True,
)
async def plan_info(house: DaemonServices, _caller: Caller) -> Any:
    """Return the newest plan of the mode ask."""
    return _plan(await house.answer("standing_plan", {}))


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
    house: DaemonServices, caller: Caller, plan: int, skip: dict[str, Any]
) -> Any:
    """Approve the waiting plan; the daemon checks each step again before it sends it."""
    words = {"skip": skip.get("numbers", []), **_number(plan), **_who(caller)}
    return _plan(await house.answer("approve_plan", words))


@method(
    "merkat.plan.refuse",
    _PLAN,
    returns=struct("The plan after the rejection.", _STANDING, _STEPS),
    example="plan",
    admin=True,
)
async def plan_refuse(house: DaemonServices, caller: Caller, plan: int) -> Any:
    """Reject the waiting plan; the daemon does not propose the same plan again."""
    return _plan(await house.answer("refuse_plan", {**_number(plan), **_who(caller)}))


def _who(caller: Caller) -> dict[str, str]:
    return {"who": caller.identity.name}


def _number(plan: int) -> dict[str, int]:
    return {} if plan == _NEWEST else {"plan": plan}


def _mode(found: dict[str, Any]) -> dict[str, Any]:
    return _there({name: found[name] for name in _MODE})


def _plan(found: dict[str, Any]) -> dict[str, Any]:
    return _there({**found, "steps": [_there(step) for step in found["steps"]]})


def _there(members: dict[str, Any]) -> dict[str, Any]:
    """Return the members that have a value."""
    return {name: value for name, value in members.items() if value is not None}


@method(
    "merkat.system.version",
    returns=Returns("string", "The version, like `0.1.0`.", {}, {}),
    example="",
)
async def system_version(house: DaemonServices, _caller: Caller) -> Any:
    """Return the version of Merkat."""
    return house.version
