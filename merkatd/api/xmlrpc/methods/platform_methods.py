"""The methods about virtual platforms, for their owners and for administrators."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from merkatd.api.values.limit_order_rows import platform_quote_row
from merkatd.api.values.plain_values import members
from merkatd.api.values.platform_arguments import update_of
from merkatd.api.xmlrpc.method_table import SELF, Parameter, method, struct, structs, whom
from merkatd.api.xmlrpc.methods.limit_order_methods import ODDS
from merkatd.base.quantities import quoted_value
from merkatd.service.base.callers import Caller, require_tenant
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.services import DaemonServices

_PLATFORM = Parameter("platform", "int", "The platform's id.")
_SHORT = {
    "id": "The platform's id.",
    "name": "The platform's name.",
    "owner": "The id of its tenant.",
    "controller": "The kind of its controller.",
    "state": "submitted, postponed, starting, queued, running, suspending, suspended, resuming,"
    " stopping, done, cancelled or failed.",
    "why": "The reason for its state.",
    "needs": "The condition for leaving this state.",
    "held": "Whether an order suspended it: then only an order resumes it.",
    "submitted_s": "The time of its submission, in seconds since the epoch.",
    "since_s": "The time of its last change of state.",
    "started_s": "The time of its start.",
    "deadline_s": "Its deadline.",
    "on_track": "Whether its controller expects to reach its goal.",
    "projected_end_s": "The time at which its controller expects the work to be done.",
    "slack_s": "The seconds from its expected end to its deadline; negative if it is late.",
    "performance": "Its performance as its controller measures it.",
    "reference": "The goal for its performance.",
    "done": "The part of its work that is done.",
    "report": "Its progress as a text.",
    "trouble": "The failure of its controller: the exception and the path of its log; left out if"
    " the controller works. While it fails, the VMs bid nothing.",
    "application": "The id of its application, which pays.",
    "budget": "The balance above which no replenishment raises its account.",
    "replenishment": "The credits that each replenishment adds.",
    "balance": "Its present balance.",
    "spent": "The cost of its VMs so far.",
    "sizes": "A struct with the wanted number of VMs by cluster.",
    "size": "The wanted number of VMs in all clusters.",
}
_LONG = _SHORT | {
    "unattended": "The error with which the daemon fails to manage it, if any. Meanwhile its VMs"
    " and bids stay as they are, and `merkat.platform.stop` still ends it.",
    "market": "The market of its VMs.",
    "give_up": "Whether work that misses the deadline is worth nothing.",
    "ideal_s": "The shortest time in which its work can be done.",
    "prices": "A struct with the price of a unit for a period, by resource.",
    "full_cost": "The cost of a period at these prices if its VMs get all that they can use.",
    "bids": "The sum of its VMs' bids for a period.",
    "limit": "The most that its limit order pays for a period, or would pay if it were stated now;"
    " left out if its VMs bid.",
    "order_cost": "The cost of a period of its limit order, 0 while it waits.",
    "limit_to_start": "The least limit with which its order would run now, if hosts have room for"
    " its VMs; left out if it runs, or if no limit is enough.",
    "declares": "What its template declares of its application, in short, and from how many earlier"
    " runs the stages of a job come; left out if it declares nothing.",
    "declared_state": "The state of the declared application in the latest period.",
    "outlook": "The decision at these prices if it were to start now: start, wait or cancel.",
    "takes": "The reason not to start now, and the condition for a start; empty if it would start.",
    "vms": "Its VMs, each a struct:",
    "actions": "Its latest actions, newest first, each a struct of `at_s`, `who`, `what`, `text`"
    " and `refused`.",
}
_CHANGEABLE = ("deadline", "performance", "budget", "replenishment")
_VM = {
    "vm": "The VM's id.",
    "cluster": "Its cluster.",
    "leaving": "Whether it is about to be ended.",
    "state": "Its state.",
    "bid_cpu": "Its bid for CPU.",
    "bid_memory": "Its bid for memory.",
    "cpu": "Its share of CPU.",
    "memory": "Its share of memory.",
}


@method(
    "merkat.platform.submit",
    Parameter("template", "string", "The text of the platform's template, in TOML."),
    Parameter("tenant", "int", "The owner; only administrators may name another tenant.", SELF),
    returns=struct("The platform; amounts in credits.", _LONG, _VM),
    example="template",
    order=1.0,
)
async def platform_submit(
    services: DaemonServices, caller: Caller, template: str, tenant: int
) -> Any:
    """Create a platform; its budget moves from the tenant's account to a separate account."""
    return members(
        await services.require_platforms().submit(caller, whom(caller, tenant), template)
    )


@method(
    "merkat.platform.quote",
    Parameter("template", "string", "The text of a patient platform's template, in TOML."),
    Parameter("tenant", "int", "The owner; only administrators may name another tenant.", SELF),
    returns=struct(
        "The limit that would start the platform now, and what limits did in the recorded past.",
        {
            "market": "The market of its VMs.",
            "size": "The number of its VMs.",
            "limit": "The limit that the platform would state now, in credits a period. It rises"
            " toward the deadline.",
            "takes": "The reason not to start now, and the condition for a start; empty if it would"
            " start.",
            "limit_to_start": "The least limit that would start its VMs now, if hosts have room for"
            " each of them; left out if no limit would be enough.",
            "history_s": "The time that the recorded past covers, in seconds.",
            "windows": "How many times the recorded past is as long as the time until the deadline;"
            " left out without a deadline or `ideal_run`.",
            "work_s": "The template's `ideal_run`, in seconds; left out without a deadline.",
            "within_s": "The seconds until the deadline; left out without `ideal_run`.",
            "why": "Why `odds` or chances are missing; empty if they are not.",
            "cpu": "The CPU that its VMs use together, in percent of a core.",
            "memory": "Their memory, in MiB.",
            "network": "Their network, in Mbit/s, if network is sold.",
            "disk": "Their disk bandwidth, in MiB/s, if it is sold.",
            "odds": "A struct for each limit, among them `limit`; empty if the recorded past is too"
            " short:",
        },
        ODDS,
    ),
    example="template",
)
async def platform_quote(
    services: DaemonServices, caller: Caller, template: str, tenant: int
) -> Any:
    """Return the limits of a patient platform before its submission; nothing is stored.

    The template is checked as in a submission.
    """
    owner, quotes = whom(caller, tenant), services.require_platform_quotes()
    require_tenant(caller, owner)  # a caller without the right waits for no turn
    if not caller.is_admin:  # the template is parsed, and OpenNebula may be asked for VM templates
        services.orders.count(caller.uid, 1.0, [template])
    view = await services.views.prepared()
    read = partial(quotes.quote, caller, view, owner, template)
    return platform_quote_row(await services.long_reads.run(caller.uid, read))


@method(
    "merkat.platform.list",
    Parameter("tenant", "int", "The tenant's id; the default, -1, is the caller.", SELF),
    returns=structs("A struct for each platform; amounts in credits.", _SHORT),
    example="",
)
async def platform_list(services: DaemonServices, caller: Caller, tenant: int) -> Any:
    """Return a tenant's platforms, including ended ones."""
    owner, there = whom(caller, tenant), services.require_platforms()
    require_tenant(caller, owner)  # a caller without the right waits for no turn
    read = partial(there.platforms, caller, owner)
    return [members(platform) for platform in await services.long_reads.run(caller.uid, read)]


@method(
    "merkat.platform.info",
    _PLATFORM,
    returns=struct("The platform; amounts in credits.", _LONG, _VM),
    example="platform",
)
async def platform_info(services: DaemonServices, caller: Caller, platform: int) -> Any:
    """Return the progress of a platform, its cost, and the conditions for its next steps."""
    there = services.require_platforms()
    await there.require_managed(caller, platform)  # as above
    return members(
        await services.long_reads.run(caller.uid, partial(there.platform, caller, platform))
    )


@method(
    "merkat.platform.update",
    _PLATFORM,
    Parameter(
        "change",
        "struct",
        '`deadline`, `"6h"` from now or a time like `"2026-05-01T09:00:00Z"`; `performance`, as'
        " its controller measures it; `budget` and `replenishment`, in credits. Missing members are"
        " left unchanged.",
    ),
    returns=struct("The platform after the change; amounts in credits.", _LONG, _VM),
    example='platform, {"deadline": "6h"}',
    order=1.0,
)
async def platform_update(
    services: DaemonServices, caller: Caller, platform: int, change: Mapping[str, Any]
) -> Any:
    """Change the goal or the budget of a platform, also while it runs."""
    for name in change:
        if name not in _CHANGEABLE:
            known = ", ".join(_CHANGEABLE)
            raise InvalidRequestError(
                f"change: unknown member {quoted_value(name)}; known: {known}"
            )
    there = services.require_platforms()
    await there.require_managed(caller, platform)  # judged before the change
    return members(await there.update(caller, platform, update_of(change)))


@method(
    "merkat.platform.suspend",
    _PLATFORM,
    returns=struct("The platform after the order; amounts in credits.", _LONG, _VM),
    example="platform",
    order=1.0,
)
async def platform_suspend(services: DaemonServices, caller: Caller, platform: int) -> Any:
    """Suspend a platform, or stop a waiting one from starting, until an order resumes it."""
    return members(await services.require_platforms().suspend(caller, platform))


@method(
    "merkat.platform.resume",
    _PLATFORM,
    returns=struct("The platform after the order; amounts in credits.", _LONG, _VM),
    example="platform",
    order=1.0,
)
async def platform_resume(services: DaemonServices, caller: Caller, platform: int) -> Any:
    """Resume a suspended platform now, whatever the price."""
    return members(await services.require_platforms().resume(caller, platform))


@method(
    "merkat.platform.stop",
    _PLATFORM,
    returns=struct("The platform after the order; amounts in credits.", _LONG, _VM),
    example="platform",
    order=1.0,
)
async def platform_stop(services: DaemonServices, caller: Caller, platform: int) -> Any:
    """End a platform and its VMs; the rest of its budget goes back to its tenant."""
    return members(await services.require_platforms().stop(caller, platform))
