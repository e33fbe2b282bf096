"""The pages of hosts: the list, and each host with its VMs, history and orders."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from merkatd.service.base.visibility import visible_host_row
from merkatd.service.market.listings import HostUse, ListedHost
from merkatd.web.base.responses import PageResponse, redirect
from merkatd.web.base.routes import PageRequest, route
from merkatd.web.layout.history_panels import host_charts, host_gaps, over_time
from merkatd.web.layout.html import Markup, Part, element
from merkatd.web.layout.page_frame import button, careful_button, page_in_frame, panel
from merkatd.web.layout.row_lists import RowFields, chosen_rows, list_page
from merkatd.web.layout.widgets import (
    HeadLinks,
    amount,
    bar,
    count_text,
    credits_text,
    facts,
    link,
    steps_table,
    table,
)
from merkatd.web.pages import visible_rows
from merkatd.web.pages.row_tables import vm_fields, vms_table
from merkatd.web.pages.visible_rows import steps

_STEPS = 50


@route("GET", "/hosts")
async def hosts(request: PageRequest) -> PageResponse:
    """Return the list of hosts, a hundred per page."""
    rows = await _rows(request)
    what = "host" if request.admin else "host with your VMs"
    shown = partial(_table, request)
    return await list_page(request, "Hosts", what, rows, shown, _fields(request))


@route("GET", "/hosts/{}")
async def host(request: PageRequest) -> PageResponse:
    """Return the page of a host."""
    now = request.now
    row = visible_host_row(request.caller, now, request.id)
    name = now.snapshot.hosts.name[row]
    listed = next(each for each in await _rows(request) if each.id == request.id)
    vms = visible_rows.vms(request, now.host == row)
    decided = await steps(request, _STEPS, host=request.id)
    return await page_in_frame(
        request,
        name,
        element("h1", name),
        panel("Now", facts(_facts(request, listed)), _orders(request, listed)),
        panel(
            "VMs here" if request.admin else "Your VMs here",
            *chosen_rows(
                request, vms, partial(vms_table, now, {name: request.id}), vm_fields(now), "VM"
            ),
        ),
        over_time(request, host_charts(request), *host_gaps(request)),
        panel("Decisions", steps_table(decided, visible_rows.host_ids(request))),
    )


@route("POST", "/hosts/{}/drain", admin=True)
async def drain(request: PageRequest) -> PageResponse:
    """Drain the host: move all VMs away."""
    await request.house.daemon.drain(request.caller, str(request.id), request.name)
    said = f"Host {_name(request)} drains: its VMs move to other hosts from the next period on."
    return redirect(f"/hosts/{request.id}", said)


@route("POST", "/hosts/{}/undrain", admin=True)
async def undrain(request: PageRequest) -> PageResponse:
    """Undrain the host: place VMs on it again."""
    await request.house.daemon.undrain(request.caller, str(request.id), request.name)
    said = f"Host {_name(request)} is in use again: VMs may start on it from the next period on."
    return redirect(f"/hosts/{request.id}", said)


def _name(request: PageRequest) -> str:
    """Return the name of the host in the address, its id if no period knows it."""
    if request.prepared is None:
        return str(request.id)
    hosts = request.now.snapshot.hosts
    named = dict(zip(hosts.id.tolist(), hosts.name, strict=True))
    return named.get(request.id) or str(request.id)


async def _rows(request: PageRequest) -> list[ListedHost]:
    return await request.house.listings.hosts(request.caller, request.now)


def _fields(request: PageRequest) -> RowFields[ListedHost]:
    orders: dict[str, Callable[[ListedHost], Any]] = {"Host": lambda row: row.name}
    orders["State"] = lambda row: row.state
    numbers: tuple[str, ...] = ("CPU", "Memory")
    if request.admin:
        numbers = ("VMs", "CPU allocated", "Memory allocated", "Bids for CPU")
        orders["VMs"] = lambda row: row.use and row.use.vms
        orders["CPU allocated"] = lambda row: row.use and _part(row, row.use, "cpu")
        orders["Memory allocated"] = lambda row: row.use and _part(row, row.use, "memory")
        orders["Bids for CPU"] = lambda row: row.use and row.use.bids["cpu"]
    else:
        orders["CPU"] = lambda row: row.capacity["cpu"]
        orders["Memory"] = lambda row: row.capacity["memory"]
    return RowFields(
        text=lambda row: f"{row.name} {row.id}",
        orders=orders,
        numbers=numbers,
        filters={"state": state_text, "market": lambda row: row.market or ""},
    )


def _table(
    request: PageRequest, rows: Sequence[ListedHost], links: HeadLinks | None = None
) -> Markup:
    if not request.admin:
        # Other tenants' use of the host is not shown.
        return table(
            "Hosts",
            ("Host", "State", "CPU", "Memory"),
            [
                (
                    link("hosts", row.id, row.name),
                    state(row),
                    amount("cpu", row.capacity["cpu"]),
                    amount("memory", row.capacity["memory"]),
                )
                for row in rows
            ],
            numbers=(2, 3),
            nothing=[
                "None of your VMs is on a host. ",
                element("a", "Your VMs", href="/vms"),
                " says for each what it waits for.",
            ],
            links=links,
        )
    return table(
        "Hosts",
        ("Host", "State", "VMs", "CPU allocated", "", "Memory allocated", "", "Bids for CPU"),
        [
            (
                link("hosts", row.id, row.name),
                state(row),
                use.vms,
                f"{use.given['cpu'] / 100:.1f} of {(row.capacity['cpu'] or 0) / 100:g} cores",
                bar(_part(row, use, "cpu")),
                f"{use.given['memory'] / 1024:.1f} of {(row.capacity['memory'] or 0) / 1024:g} GiB",
                bar(_part(row, use, "memory")),
                credits_text(use.bids["cpu"]),
            )
            for row in rows
            if (use := row.use) is not None
        ],
        numbers=(2, 3, 5, 7),
        nothing="There are no hosts. Add one in OpenNebula, with `onehost create`.",
        links=links,
    )


def _part(row: ListedHost, use: HostUse, resource: str) -> float:
    capacity = row.capacity[resource]
    return use.given[resource] / capacity if capacity else 0.0


_STATES = {"on": ("on", "good"), "drain": ("draining", "warn"), "dsbl": ("disabled", "warn")}


def state_text(row: ListedHost) -> str:
    """Return a host's state in a word."""
    return _STATES.get(row.state, (row.state, ""))[0]


def state(row: ListedHost) -> Markup:
    """Return a host's state as a badge."""
    kind = _STATES.get(row.state, ("", "bad"))[1]
    return element("span", state_text(row), class_=f"badge {kind}")


def _facts(request: PageRequest, row: ListedHost) -> list[tuple[str, Part]]:
    shown: list[tuple[str, Part]] = [("State", state(row)), ("Market", row.market or "none")]
    for resource in request.house.world.goods.resources:
        capacity = amount(resource, row.capacity[resource])
        name = {"cpu": "CPU"}.get(resource, resource.capitalize())
        if row.use is not None:
            given = amount(resource, row.use.given[resource])
            bids = credits_text(row.use.bids[resource])
            shown.append(
                (name, f"{given} of {capacity} allocated, bids of {bids} credits a period")
            )
        else:
            shown.append((name, capacity))
    if row.use is not None and row.use.note:
        shown.append(("Note", row.use.note))
    return shown


def _orders(request: PageRequest, row: ListedHost) -> Part:
    if not request.admin:
        return None
    if row.state == "drain":
        return button(request, f"/hosts/{request.id}/undrain", "Undrain: use it again")
    vms = count_text(0 if row.use is None else row.use.vms, "VM")
    effect = (
        f"{vms} of {row.name} will move to other hosts where these have room, and no VM will start"
        " on it. To undrain it later does not move them back."
    )
    action = f"/hosts/{request.id}/drain"
    return careful_button(request, action, "Drain …", effect, f"Drain {row.name}")
