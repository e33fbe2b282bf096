"""The methods with reports about tenants: their months, and their shares of the cloud."""

from typing import Any

from merkatd.api.values.market_rows import flat_row
from merkatd.api.values.report_rows import share_row
from merkatd.api.xmlrpc.method_table import SELF, Parameter, method, structs, whom
from merkatd.service.base.callers import Caller, require_tenant
from merkatd.service.services import DaemonServices

_TENANT = Parameter("tenant", "int", "The user's id; the default, -1, is the caller.", SELF)
_ABOUT = {
    "id": "The user's id.",
    "name": "The user's name, if known.",
    "group_name": "The name of its primary group, if known.",
}
_MONTH = {
    "month": "The month, in UTC.",
    **_ABOUT,
    "vms": "The number of VMs that were charged.",
    "hours": "The hours for which they ran and were charged, all together.",
    "cpu_hours": "Allocated cores x hours.",
    "memory_hours": "Allocated GiB of memory x hours.",
    "cpu_cost": "The cost of CPU.",
    "memory_cost": "The cost of memory.",
    "network_cost": "The cost of network; 0 if it was not sold.",
    "disk_cost": "The cost of disk; 0 if it was not sold.",
    "cost": "The cost of all resources.",
    "part": "The part of the costs of all tenants; left out unless an administrator asks.",
    "income": "The credits that renewals and grants added.",
    "refunds": "The credits that were refunded.",
    "difference": "The micro-credits by which the costs differ from the charges; always 0.",
}
_SHARE = {
    **_ABOUT,
    "weight": "Its weight in the division of all credits.",
    "entitled": "Its part of all weights; left out if its user was removed.",
    "budget": "The credits up to which a renewal fills its accounts.",
    "used": "The credits that it paid for VMs in this month.",
    "left": "The credits in its account and its applications.",
    "debt": "Its debt from earlier periods.",
    "vms": "The number of its VMs.",
    "cost": "The credits that a period costs it now.",
    "lasts": "The number of periods for which its credits last at this cost; left out at no cost.",
    "cpu": "Its allocated CPU, in percent of a core.",
    "memory": "Its allocated memory, in MiB.",
    "part_cpu": "Its part of the CPU of all hosts that can be reached.",
    "part_memory": "Its part of their memory.",
    "network": "Its allocated network, in Mbit/s; left out if network is not sold.",
    "part_network": "Its part of the network; left out if network is not sold.",
    "disk": "Its allocated disk, in MiB/s; left out if disk is not sold.",
    "part_disk": "Its part of the disks; left out if disk is not sold.",
}


@method(
    "merkat.report.info",
    _TENANT,
    Parameter("month", "string", "The last month, like `2026-05`; by default the present one.", ""),
    Parameter("months", "int", "The number of months up to that month, at most 24.", 1),
    returns=structs("A struct for each month with use, payments or income; in credits.", _MONTH),
    example='-1, "", 3',
)
async def report_info(
    services: DaemonServices, caller: Caller, tenant: int, month: str, months: int
) -> Any:
    """Return what a tenant used and paid in past months."""
    owner = whom(caller, tenant)
    require_tenant(caller, owner)

    async def read() -> Any:
        rows = await services.tenant_reports.months(caller, month or None, months, owner)
        return [{name: flat_row(row)[name] for name in _MONTH} for row in rows]

    return await services.long_reads.run(caller.identity.uid, read)


@method(
    "merkat.share.info",
    _TENANT,
    returns=structs("One struct; amounts in credits.", _SHARE),
    example="",
)
async def share_info(services: DaemonServices, caller: Caller, tenant: int) -> Any:
    """Return what a tenant may have of the cloud, and what it has now."""
    owner = whom(caller, tenant)
    require_tenant(caller, owner)

    async def read() -> Any:
        view = (await services.views.prepared()).now
        return [share_row(row) for row in await services.tenant_reports.shares(caller, view, owner)]

    return await services.long_reads.run(caller.identity.uid, read)
