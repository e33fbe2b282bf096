"""The daemon, modes and plans."""

from typing import Any

from merkatd.api.xmlrpc.method_table import Parameter, Returns, method, struct
from merkatd.service.base.identity import Caller
from merkatd.service.services import DaemonServices

_NEWEST = 0
_PLAN = Parameter(
    "plan",
    "int",
    "Only if this is the plan that waits; 0, which is meant unless said, is whichever waits.",
    _NEWEST,
)
_MODE = {
    "mode": "`dry` and `shadow`: nothing is done of what is decided. `ask`: VMs are placed, moved"
    " and suspended once an administrator approves. `on`: all is done.",
    "configured": "What the configuration says,",
    "ordered": "and what was ordered instead, if anything was.",
    "waiting_plan": "The number of the plan that waits, if one does.",
}
_STANDING = {
    "plan": "Its number.",
    "period": "The period that made it,",
    "at_s": "and when, in seconds since the epoch.",
    "state": "`waiting`, `approved`, `done`, `refused`, or `replaced` by another.",
    "who": "Who approved or refused, if somebody did.",
    "steps": "What it would do, an array of structs:",
}
_STEPS = {
    "number": "What `skip` calls it.",
    "kind": "`deploy`, `migrate`, `suspend`, ...",
    "vm": "The VM,",
    "name": "and its name, if there is such a VM.",
    "source": "The host that it would leave, where it leaves one,",
    "host": "and the one that it would go to.",
    "reason": "Why.",
    "skipped": "Whether it was left out.",
    "became": "What became of it, once that is known.",
}


@method(
    "merkat.daemon.info",
    returns=struct(
        "How the daemon is.",
        {
            "mode": _MODE["mode"],
            "paused": "Whether no periods begin.",
            "standby": "Why another daemon acts instead, if one does.",
            "period": "The latest period that came to its end, if there was one,",
            "at_s": "and when, in seconds since the epoch.",
            "interval_s": "How long a period is.",
        },
    ),
    example="",
)
async def daemon_info(house: DaemonServices, _caller: Caller) -> Any:
    """Whether the daemon acts, and how much of what it decides is done."""
    found = await house.questions.answer("status", {})
    names = ("mode", "paused", "standby", "period", "at_s", "interval_s")
    return _there({name: found[name] for name in names})


@method(
    "merkat.daemon.pause",
    returns=struct("What was changed.", {"changed": "False where it was paused already."}),
    example="",
    admin=True,
)
async def daemon_pause(house: DaemonServices, caller: Caller) -> Any:
    """Begin no more periods, also after a restart; VMs run on with the limits they have."""
    return {"changed": await house.questions.answer("pause", _who(caller))}


@method(
    "merkat.daemon.resume",
    returns=struct("What was changed.", {"changed": "False where it was not paused."}),
    example="",
    admin=True,
)
async def daemon_resume(house: DaemonServices, caller: Caller) -> Any:
    """Go on after a pause."""
    return {"changed": await house.questions.answer("resume", _who(caller))}


@method("merkat.mode.info", returns=struct("The mode.", _MODE), example="", admin=True)
async def mode_info(house: DaemonServices, _caller: Caller) -> Any:
    """How much of what is decided is done, and who said so."""
    return _mode(await house.questions.answer("mode", {}))


@method(
    "merkat.mode.set",
    Parameter("mode", "string", "`dry`, `shadow`, `ask`, `on`, or `configured`."),
    returns=struct("The mode as it is then.", _MODE),
    example='"configured"',
    admin=True,
)
async def mode_set(house: DaemonServices, caller: Caller, mode: str) -> Any:
    """Order another mode, from the next period on; it outlives restarts, until `configured`."""
    return _mode(await house.questions.answer("mode", {"to": mode, **_who(caller)}))


@method(
    "merkat.plan.info",
    returns=struct("The newest plan, whatever became of it.", _STANDING, _STEPS),
    example="",
    admin=True,
)
async def plan_info(house: DaemonServices, _caller: Caller) -> Any:
    """The plan that stands in mode ask."""
    return _plan(await house.questions.answer("standing_plan", {}))


@method(
    "merkat.plan.approve",
    _PLAN,
    Parameter(
        "skip", "struct", "Steps that are not done: `numbers`, an array of their numbers.", {}
    ),
    returns=struct("The plan as it is then.", _STANDING, _STEPS),
    example='plan, {"numbers": [1]}',
    admin=True,
)
async def plan_approve(
    house: DaemonServices, caller: Caller, plan: int, skip: dict[str, Any]
) -> Any:
    """Have the plan that waits carried out; each step is judged again before it is sent."""
    words = {"skip": skip.get("numbers", []), **_number(plan), **_who(caller)}
    return _plan(await house.questions.answer("approve_plan", words))


@method(
    "merkat.plan.refuse",
    _PLAN,
    returns=struct("The plan as it is then.", _STANDING, _STEPS),
    example="plan",
    admin=True,
)
async def plan_refuse(house: DaemonServices, caller: Caller, plan: int) -> Any:
    """Have nothing done of the plan that waits; the same one is not proposed again by itself."""
    return _plan(await house.questions.answer("refuse_plan", {**_number(plan), **_who(caller)}))


def _who(caller: Caller) -> dict[str, str]:
    return {"who": caller.identity.name}


def _number(plan: int) -> dict[str, int]:
    return {} if plan == _NEWEST else {"plan": plan}


def _mode(found: dict[str, Any]) -> dict[str, Any]:
    return _there({name: found[name] for name in _MODE})


def _plan(found: dict[str, Any]) -> dict[str, Any]:
    return _there({**found, "steps": [_there(step) for step in found["steps"]]})


def _there(members: dict[str, Any]) -> dict[str, Any]:
    """Without those that have no value."""
    return {name: value for name, value in members.items() if value is not None}


@method(
    "merkat.system.version",
    returns=Returns("string", "The version, as `0.1.0`.", {}, {}),
    example="",
)
async def system_version(house: DaemonServices, _caller: Caller) -> Any:
    """Which version of Merkat answers."""
    return house.version
