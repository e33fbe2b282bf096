"""The methods about virtual platforms: their owners and administrators may use them."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from merkatd.api.xmlrpc.method_table import SELF, Parameter, method, struct, structs
from merkatd.base.quantities import shown
from merkatd.service.base.errors import Code, QuestionError, RequestError
from merkatd.service.base.identity import Caller, need_tenant
from merkatd.service.platforms import PlatformQuestions
from merkatd.service.services import DaemonServices

_PLATFORM = Parameter("platform", "int", "The platform's id.")
_SHORT = {
    "id": "The platform,",
    "name": "its name,",
    "owner": "and the tenant whose it is.",
    "controller": "The kind of its controller.",
    "state": "submitted, postponed, starting, running, suspending, suspended, resuming, stopping,"
    " done, cancelled or failed.",
    "why": "Why it is in this state,",
    "needs": "and what it would take to leave it.",
    "held": "Whether its tenant suspended it: then nobody else resumes it.",
    "submitted_s": "When it was submitted, in seconds since the epoch,",
    "since_s": "since when it is in its state,",
    "started_s": "and when it started.",
    "deadline_s": "Its deadline.",
    "on_track": "Whether its controller expects to reach what it is to reach.",
    "projected_end_s": "When it expects to be done,",
    "slack_s": "which is so much before the deadline, after it where negative.",
    "performance": "Its performance as its controller measures it,",
    "reference": "and what that should be.",
    "done": "The part of its work that is done.",
    "report": "The same in words.",
    "trouble": "Why its controller fails, with its exception and the path of its log; nil where it"
    " works. Meanwhile its VMs bid nothing.",
    "application": "Its application, which pays.",
    "budget": "What replenishment never lifts its balance above,",
    "replenishment": "what is added at every replenishment,",
    "balance": "what it has left,",
    "spent": "and what its VMs cost up to now.",
    "sizes": "By cluster, how many VMs it is to have: a struct;",
    "size": "all together.",
}
_LONG = _SHORT | {
    "unattended": "Why the daemon fails to look after it; nil where it does not fail. Meanwhile its"
    " VMs and bids stay as they are; `merkat.platform.stop` ends it all the same.",
    "market": "The market its VMs are in.",
    "give_up": "Whether work that can't be done in time is worth nothing.",
    "ideal_s": "The least time in which its work can be done.",
    "prices": "What a unit costs a period there: a struct by resource.",
    "full_cost": "What a period in which its VMs get all they can use costs at these prices,",
    "bids": "and what they bid for a period, together.",
    "outlook": "What would become of it at these prices if it were to start now: start, wait or"
    " cancel.",
    "takes": "What it would take.",
    "vms": "Its VMs, a struct each:",
    "actions": "What was done last, newest first, a struct each of at_s, who, what, text, refused.",
}
_CHANGEABLE = ("deadline", "performance", "budget", "replenishment")
_VM = {
    "vm": "The VM,",
    "cluster": "its cluster,",
    "leaving": "whether it is to be ended,",
    "state": "what it is doing;",
    "bid_cpu": "what it bids for CPU",
    "bid_memory": "and for memory,",
    "cpu": "and gets of the one",
    "memory": "and of the other.",
}


@method(
    "merkat.platform.submit",
    Parameter("template", "string", "The text of a template, in TOML."),
    Parameter("tenant", "int", "Whose it is to be: another's for administrators only.", SELF),
    returns=struct("The platform; amounts in credits.", _LONG, _VM),
    example="template",
    order=1.0,
)
async def platform_submit(house: DaemonServices, caller: Caller, template: str, tenant: int) -> Any:
    """Have a platform looked after from now on; its budget is moved to an account of its own."""
    identity = caller.identity
    owner = identity.uid if tenant == SELF else tenant
    need_tenant(identity, owner)
    ask = partial(house.logins.ask, caller.session)
    return await _there(house).submit(owner, template, ask, _who(caller), admin=identity.is_admin)


@method(
    "merkat.platform.list",
    Parameter("tenant", "int", "Whose; -1, which is meant unless said, is oneself.", SELF),
    returns=structs("A struct a platform; amounts in credits.", _SHORT),
    example="",
)
async def platform_list(house: DaemonServices, caller: Caller, tenant: int) -> Any:
    """A tenant's platforms, also those that are over."""
    owner = caller.identity.uid if tenant == SELF else tenant
    need_tenant(caller.identity, owner)
    read = partial(_there(house).listed, owner)
    return await house.long_reads.run(caller.identity.uid, read)


@method(
    "merkat.platform.info",
    _PLATFORM,
    returns=struct("The platform; amounts in credits.", _LONG, _VM),
    example="platform",
)
async def platform_info(house: DaemonServices, caller: Caller, platform: int) -> Any:
    """How a platform fares, what it cost, and what it would take."""
    there = await own_platform(house, caller, platform)
    return await house.long_reads.run(caller.identity.uid, partial(there.shown, platform))


@method(
    "merkat.platform.update",
    _PLATFORM,
    Parameter(
        "change",
        "struct",
        '`deadline`, `"6h"` from now or a time like `"2026-05-01T09:00:00Z"`; `performance`, as'
        " its controller measures it; `budget` and `replenishment`, in credits. What is left out"
        " stays.",
    ),
    returns=struct("The platform as it is then; amounts in credits.", _LONG, _VM),
    example='platform, {"deadline": "6h"}',
    order=1.0,
)
async def platform_update(
    house: DaemonServices, caller: Caller, platform: int, change: Mapping[str, Any]
) -> Any:
    """Change what a platform is to reach, or may spend, also while it runs."""
    for name in change:
        if name not in _CHANGEABLE:
            raise QuestionError(f"change: {shown(name)}: only {', '.join(_CHANGEABLE)} are right")
    there = await own_platform(house, caller, platform)
    return await there.change(platform, change, _who(caller))


@method(
    "merkat.platform.suspend",
    _PLATFORM,
    returns=struct("The platform as it is then; amounts in credits.", _LONG, _VM),
    example="platform",
    order=1.0,
)
async def platform_suspend(house: DaemonServices, caller: Caller, platform: int) -> Any:
    """Suspend a platform, or hold back one that waits, until it is resumed by this interface."""
    there = await own_platform(house, caller, platform)
    return await there.order(there.manager.suspend, platform, _who(caller))


@method(
    "merkat.platform.resume",
    _PLATFORM,
    returns=struct("The platform as it is then; amounts in credits.", _LONG, _VM),
    example="platform",
    order=1.0,
)
async def platform_resume(house: DaemonServices, caller: Caller, platform: int) -> Any:
    """Resume a suspended platform now, whatever the price."""
    there = await own_platform(house, caller, platform)
    return await there.order(there.manager.resume, platform, _who(caller))


@method(
    "merkat.platform.stop",
    _PLATFORM,
    returns=struct("The platform as it is then; amounts in credits.", _LONG, _VM),
    example="platform",
    order=1.0,
)
async def platform_stop(house: DaemonServices, caller: Caller, platform: int) -> Any:
    """End a platform and its VMs; what is left of its budget goes back to its tenant."""
    there = await own_platform(house, caller, platform)
    return await there.order(there.manager.stop, platform, _who(caller))


def _there(house: DaemonServices) -> PlatformQuestions:
    if house.questions.platforms is None:
        raise RequestError(Code.ACTION, "This daemon keeps no platforms.")
    return house.questions.platforms


async def own_platform(house: DaemonServices, caller: Caller, platform: int) -> PlatformQuestions:
    """Return the questions, if the platform is the caller's. Raises Refusal, NotFoundError."""
    there = _there(house)
    owner = await there.owner_of(platform)
    if not caller.identity.is_admin and caller.identity.uid != owner:
        raise RequestError(
            Code.AUTHORIZATION,
            f"User [{caller.identity.uid}] : Not authorized to perform MANAGE PLATFORM"
            f" [{platform}].",
            platform,
        )
    return there


def _who(caller: Caller) -> str:
    return f"user {caller.identity.uid}"
