"""VMs as a table: only those that are shown are looked at one by one."""

from collections.abc import Mapping, Sequence

from merkatd.api.questions.present import Present
from merkatd.cluster import Floats
from merkatd.web.markup import Markup, Part
from merkatd.web.pages.parts import amount, credits_, link, table, tenant


def vms_table(now: Present, hosts: Mapping[str, int], rows: Sequence[int]) -> Markup:
    """What the VMs in these rows bid, get and pay; `hosts` are those that have a page."""
    gets = now.given()
    return table(
        "VMs: what each bids, gets and pays",
        ("VM", "Tenant", "State", "Host", "Bid for CPU", "Gets", "Memory", "Pays", "Why not more"),
        [_row(now, row, gets, hosts) for row in rows],
        numbers=(4, 5, 6, 7),
        nothing="There are no VMs.",
    )


def _row(now: Present, row: int, gets: Floats, hosts: Mapping[str, int]) -> Sequence[Part]:
    vms = now.snapshot.vms
    vm, owner, host = int(vms.id[row]), int(vms.owner[row]), now.host_name(row)
    cpu, memory = (now.snapshot.resources.index(name) for name in ("cpu", "memory"))
    return (
        link("vms", vm, vms.name[row] or f"VM {vm}"),
        tenant(owner, now.owner_names),
        now.states[row].lower(),
        link("hosts", hosts.get(host or ""), host),
        credits_(float(vms.bid[row, cpu])),
        amount("cpu", float(gets[row, cpu])),
        amount("memory", float(gets[row, memory])),
        credits_(float(now.cost[row].sum())),
        now.messages.get(vm, ""),
    )
