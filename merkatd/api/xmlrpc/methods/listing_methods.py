"""The methods that list hosts, VMs, applications and past decisions."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from merkatd.api.values.listing_rows import application_row, host_row, vm_row
from merkatd.api.values.market_rows import Row, flat_row
from merkatd.api.xmlrpc.method_table import Parameter, method, structs
from merkatd.base.quantities import quoted_value
from merkatd.protocol.control_messages import KINDS, STATES
from merkatd.service.base.arguments import number, one_of, whole
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.period_view import PeriodView
from merkatd.service.market.step_history import DEFAULT_STEPS, StepQuery
from merkatd.service.services import DaemonServices

MOST_LISTED_STEPS = 10_000
"""The most steps in an answer."""
_LONGEST_S = 1e12
_FILTERS = ("vm", "host", "kind", "state", "first_period", "last_period", "since_s", "limit")
Listed = TypeVar("Listed")

_UNITS = {
    "cpu": "of CPU, in percent of a core",
    "memory": "of memory, in MiB",
    "network": "of network, in Mbit/s, if it is sold",
    "disk": "of disk bandwidth, in MiB/s, if it is sold",
}


def _by_good(prefix: str, what: str) -> dict[str, str]:
    """Return the description of a member for each good, whose name has the prefix."""
    return {f"{prefix}{good}": f"{what} {unit}." for good, unit in _UNITS.items()}


def _bids(what: str) -> dict[str, str]:
    return {f"bid_{good}": f"{what} for {good}, in credits a period." for good in _UNITS}


_OWNER = "The id of the user that pays."
_OWNER_NAME = "The name of the user that pays, if known."
_MARKET = "Its market."


@method(
    "merkat.host.list",
    returns=structs(
        "A struct for each host; `vms`, `note`, `given_`, `bids_` and `used_` are for"
        " administrators only.",
        {
            "id": "The host's id.",
            "name": "The host's name.",
            "state": "`on`, `dsbl` (takes no new VMs), `drain` (is emptied), or `off`.",
            "market": _MARKET,
            **_by_good("", "Its capacity"),
            "vms": "The number of VMs on it, including VMs that are moving to it.",
            **_by_good("given_", "The sum of its VMs' shares"),
            **{name.replace("bid_", "bids_"): does for name, does in _bids("All bids").items()},
            **_by_good("used_", "The use, as last monitored,"),
            "note": "A note for the administrator, if any.",
        },
    ),
    example="",
)
async def host_list(services: DaemonServices, caller: Caller) -> Any:
    """Return the hosts with VMs of the caller; for an administrator, all hosts."""
    return await _listed(services, caller, services.listings.hosts, host_row)


@method(
    "merkat.vm.list",
    returns=structs(
        "A struct for each VM, as of the latest period.",
        {
            "id": "The VM's id.",
            "name": "The VM's name.",
            "owner": _OWNER,
            "owner_name": _OWNER_NAME,
            "group": "The name of its group of users, if known.",
            "running_s": "If its guest runs: the seconds since its start or its last move.",
            "application": "The id of its application, if it is in one.",
            "state": "Its state in OpenNebula when the period started.",
            "host": "Its host, or the host that it is moving to.",
            "market": _MARKET,
            "vcpus": "The number of its virtual CPUs.",
            "rate": "Credits per core used for a period, if its market charges for use.",
            "cost": "The cost of a whole period; the most if its market charges for use.",
            "error": "Its allocation error; 0 if it has all that it can use.",
            "message": "The daemon's message to its owner, if any.",
            **_by_good("", "Its share"),
            **_bids("Its bid"),
            **_by_good("floor_", "Its floor"),
            **_by_good("cap_", "Its cap"),
            **_by_good("first_", "If its market were a single host, its share"),
            **_by_good("held_", "The amount that it held when last monitored"),
        },
    ),
    example="",
)
async def vm_list(services: DaemonServices, caller: Caller) -> Any:
    """Return the VMs of the caller; for an administrator, all VMs."""
    return await _listed(services, caller, services.listings.vms, vm_row)


@method(
    "merkat.application.list",
    returns=structs(
        "A struct for each application, and one for a tenant's VMs without an application.",
        {
            "application": "The application's id; left out for VMs without an application.",
            "name": "The application's name.",
            "owner": _OWNER,
            "owner_name": _OWNER_NAME,
            "vms": "The number of its VMs.",
            "running": "The number of its running VMs.",
            "pending": "The number of its VMs that wait for a host.",
            "cost": "The cost of a whole period.",
            "balance": "The credits left to pay with.",
            "lasts": "The number of periods for which the balance lasts at this cost.",
            **_by_good("", "The sum of its VMs' shares"),
            **_bids("The sum of its VMs' bids"),
        },
    ),
    example="",
)
async def application_list(services: DaemonServices, caller: Caller) -> Any:
    """Return the applications of the caller; for an administrator, all applications."""
    return await _listed(services, caller, services.listings.applications, application_row)


@method(
    "merkat.step.list",
    Parameter(
        "filters",
        "struct",
        "Conditions that a step must meet: `vm` and `host`, ids; `kind`, such as `migrate`;"
        " `state`, such as `confirmed`; `first_period`, `last_period`; `since_s`, in seconds since"
        f" the epoch; and `limit`, the most steps to return, by default {DEFAULT_STEPS}.",
        {},
    ),
    returns=structs(
        "A struct for each step, the newest first.",
        {
            "id": "The step's id.",
            "period": "The period that decided it.",
            "at_s": "The time of the decision, in seconds since the epoch.",
            "sent_s": "The time when it was sent, if it was.",
            "ended_s": "The time when it ended, if it has ended.",
            "kind": "`deploy`, `migrate`, `suspend`, ...",
            "vm": "The id of its VM; left out before the VM is created.",
            "name": "The name of its VM, while the VM exists.",
            "source": "The host that the VM leaves.",
            "host": "The host that the VM goes to.",
            "state": "The step's state.",
            "gain": "The gain of a migration, in credits.",
            "after": "The ids of the steps that had to be done first.",
            "reason": "The reason for the step.",
            "reply": "Why the step was refused or expired.",
        },
    ),
    example='{"vm": vm, "limit": 20}',
)
async def step_list(services: DaemonServices, caller: Caller, filters: Mapping[str, Any]) -> Any:
    """Return the newest decisions about the caller's VMs; for an administrator, about all VMs."""
    for name in filters:
        if name not in _FILTERS:
            known = ", ".join(_FILTERS)
            raise InvalidRequestError(
                f"filters: unknown member {quoted_value(name)}; known: {known}"
            )
    kind, limit = one_of(filters, "kind", KINDS), whole(filters, "limit")
    most = DEFAULT_STEPS if limit is None else limit
    if not 1 <= most <= MOST_LISTED_STEPS:
        raise InvalidRequestError(f"limit: must be from 1 to {MOST_LISTED_STEPS} (got {most})")
    query = StepQuery(
        vm=whole(filters, "vm"),
        host=whole(filters, "host"),
        kinds=None if kind is None else frozenset({kind}),
        state=one_of(filters, "state", STATES),
        first_period=whole(filters, "first_period"),
        last_period=whole(filters, "last_period"),
        since_s=number(filters, "since_s", _LONGEST_S),
    )
    latest = services.scheduler.latest
    snapshot = None if latest is None else latest.seen.snapshot
    run = partial(services.long_reads.run, caller.uid)
    return [
        flat_row(step) for step in await services.steps.steps(caller, snapshot, query, most, run)
    ]


async def _listed(
    services: DaemonServices,
    caller: Caller,
    read: Callable[[Caller, PeriodView], Awaitable[Sequence[Listed]]],
    row: Callable[[Listed], Row],
) -> list[Row]:
    """Return the rows of a list that grows with the caller's VMs, in the caller's turn."""

    async def rows() -> list[Row]:
        view = (await services.views.prepared()).now
        listed = await read(caller, view)
        return await services.world.executor.run(lambda: [row(each) for each in listed])

    return await services.long_reads.run(caller.uid, rows)
