"""The pages of platforms: the list, and each platform."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from merkatd.base.quantities import duration_text, exact_credits_text
from merkatd.service.platforms import PlatformDetails, PlatformSummary, PlatformVm, SeenPlatformVm
from merkatd.web.base.goals import OVER, of_platform
from merkatd.web.base.responses import PageResponse
from merkatd.web.base.routes import PageRequest, route
from merkatd.web.layout.history_panels import over_time, platform_charts, platform_gaps
from merkatd.web.layout.html import Markup, Part, element, field
from merkatd.web.layout.page_frame import (
    button,
    careful_button,
    form,
    page_in_frame,
    panel,
)
from merkatd.web.layout.row_lists import RowFields, chosen_rows, list_page
from merkatd.web.layout.widgets import (
    NONE,
    HeadLinks,
    amount,
    count_text,
    credits_text,
    deadline,
    facts,
    link,
    moment,
    table,
    tenant,
)
from merkatd.web.pages.row_tables import progress, verdict

NAMES = ("deadline", "budget", "replenishment", "performance")


def change_form(
    request: PageRequest, row: PlatformDetails, values: Mapping[str, str], wrong: Mapping[str, str]
) -> Markup:
    """Return the form that changes a platform; empty fields are left unchanged."""

    def field_of(name: str, label: str, hint: str) -> Markup:
        return field(name, label, values.get(name, ""), wrong, hint, autocomplete="off")

    return form(
        request,
        f"/platforms/{row.id}/quote",
        field_of("deadline", "Deadline", "A time from now (6h), or a date (2026-05-01T09:00:00Z)."),
        field_of("budget", "Budget", f"Credits; {exact_credits_text(row.budget)} now."),
        field_of(
            "replenishment",
            "Replenishment",
            f"Credits; {exact_credits_text(row.replenishment)} now.",
        ),
        field_of("performance", "Performance", "In the unit of its controller."),
        element("p", "Empty fields are left unchanged.", class_="quiet"),
        element("button", "Show the quote", type="submit", class_="main"),
    )


_AS_THEY_ARE = "Its VMs and their bids are left unchanged; an order to stop ends them."
_OUTLOOK = {"start": "it can run", "wait": "it would wait", "cancel": "it would be cancelled"}


@route("GET", "/platforms")
async def platforms(request: PageRequest) -> PageResponse:
    """Return the list of platforms that the visitor may see, including ended ones."""
    rows = sorted(await request.platforms(), key=lambda row: -row.id)
    names = request.now.owner_names
    shown = partial(_table, names, request.house.world.now())
    fields: RowFields[PlatformSummary] = RowFields(
        text=lambda row: f"{row.name} {row.id} {names.get(row.owner, '')}",
        orders={
            "Platform": lambda row: row.name,
            "Tenant": lambda row: names.get(row.owner),
            "VMs": lambda row: row.size,
            "Done": lambda row: row.done,
            "Deadline": lambda row: row.deadline_s,
            "Spent": lambda row: row.spent,
            "Left": lambda row: row.balance,
        },
        numbers=("VMs", "Done", "Spent", "Left"),
        filters={"state": lambda row: row.state},
    )
    new = element("a", "New platform", href="/platforms/new", class_="action")
    return await list_page(request, "Platforms", "platform", rows, shown, fields, new)


def _table(
    names: Mapping[int, str],
    now_s: float,
    rows: Sequence[PlatformSummary],
    links: HeadLinks | None = None,
) -> Markup:
    return table(
        "Platforms",
        ("Platform", "Tenant", "State", "VMs", "Done", "Deadline", "In time?", "Spent", "Left"),
        [
            (
                link("platforms", row.id, row.name),
                tenant(row.owner, names),
                row.state,
                row.size,
                progress(of_platform(row), now_s),
                deadline(row.deadline_s, now_s),
                verdict(of_platform(row)),
                credits_text(row.spent),
                credits_text(row.balance),
            )
            for row in rows
        ],
        numbers=(3, 7, 8),
        nothing=[
            "There are no platforms. ",
            element("a", "Submit one", href="/platforms/new"),
            ": it runs VMs until its work is done, for at most its budget.",
        ],
        links=links,
    )


@route("GET", "/platforms/{}")
async def platform(request: PageRequest) -> PageResponse:
    """Return the page of a platform."""
    row = await shown_platform(request)
    return await page_in_frame(request, row.name, *await platform_page(request, row))


async def shown_platform(request: PageRequest) -> PlatformDetails:
    """Return the platform in the address, at the page's prices. Raise RequestError."""
    house, caller = request.house, request.caller
    there = house.require_platforms()
    await request.read(
        ("platform of", request.id), lambda: there.require_managed(caller, request.id)
    )
    latest = None if request.prepared is None else request.prepared.latest
    read = partial(there.platform, caller, request.id, latest)
    details: PlatformDetails = await request.read(
        ("platform", request.id), lambda: house.long_reads.run(request.uid, read)
    )
    return details


async def platform_page(
    request: PageRequest,
    row: PlatformDetails,
    values: Mapping[str, str] | None = None,
    wrong: Mapping[str, str] | None = None,
) -> list[Part]:
    """Return the parts of a platform's page; `values` and `wrong` are those of a form."""
    names = request.now.owner_names
    over = row.state in OVER
    forms = None if over else panel("Change", change_form(request, row, values or {}, wrong or {}))
    return [
        element("h1", row.name, " ", element("small", f"platform {row.id}", class_="quiet")),
        element("p", _lead(row), class_="lead"),
        element(
            "div",
            panel(
                "Status",
                facts(progress_facts(request, row, names)),
                None if over else _orders(request, row),
            ),
            forms,
            class_="grid",
        ),
        over_time(request, platform_charts(request, row), *platform_gaps(request)),
        panel(
            "VMs", *chosen_rows(request, row.vms, _vms, _VM_FIELDS, "VM", f"/platforms/{row.id}")
        ),
        panel("History", _actions(row)),
    ]


def _lead(row: PlatformDetails) -> str:
    """Return the most important sentence about a platform."""
    if row.unattended and row.state not in OVER:
        return f"The daemon can't manage it: {row.unattended}. {_AS_THEY_ARE}"
    if row.trouble and row.state not in OVER:
        return f"Its controller fails: {row.trouble}. Its VMs bid nothing until it works again."
    return str(row.report or row.why or "")


def progress_facts(
    request: PageRequest, row: PlatformDetails, names: Mapping[int, str], *, new: bool = False
) -> list[tuple[str, Part]]:
    """Return the facts about a platform; a `new` one is not submitted yet and has no progress."""
    now_s = request.house.world.now()
    goal = of_platform(row)
    slack_s = row.slack_s
    under_way: list[tuple[str, Part]] = [
        ("State", [row.state, f", {row.needs}" if row.needs else ""]),
        ("Done", progress(goal, now_s)),
        ("In time?", verdict(goal)),
        ("Expected end", NONE if slack_s is None else _slack(slack_s)),
    ]
    return [
        ("Tenant", tenant(row.owner, names)),
        ("Deadline", deadline(row.deadline_s, now_s)),
        *([] if new else under_way),
        (
            "Budget",
            f"{credits_text(row.budget)}, + {credits_text(row.replenishment)} a renewal",
        ),
        (
            "Spent and left",
            f"{credits_text(row.spent)} and {credits_text(row.balance)} credits",
        ),
        ("Bids", f"{credits_text(row.bids)} a period")
        if row.limit is None
        else ("Limit order", _limit_order(row)),
        *_declared(row),
        ("Cost at full use", f"{credits_text(row.full_cost)} a period at present prices"),
        (
            "At these prices",
            [_OUTLOOK[row.outlook], f": {row.takes}" if row.takes else ""],
        ),
    ]


def _declared(row: PlatformDetails) -> list[tuple[str, Part]]:
    if row.declares is None:
        return []
    return [("Application", [row.declares, f"; {row.declared_state}"])]


def _limit_order(row: PlatformDetails) -> str:
    pays = f", pays {credits_text(row.order_cost)} now" if row.order_cost else ""
    starts = row.limit_to_start
    pays = pays if starts is None else f", would start with {credits_text(starts)}"
    return f"at most {credits_text(row.limit)} a period{pays}"


def _slack(slack_s: float) -> str:
    return f"{duration_text(slack_s)} {'before' if slack_s >= 0 else 'after'} its deadline"


def _orders(request: PageRequest, row: PlatformDetails) -> Markup:
    at = f"/platforms/{row.id}"
    suspended = row.state in {"suspended", "suspending"} or row.held
    first = (
        button(request, f"{at}/resume", "Resume")
        if suspended
        else button(request, f"{at}/suspend", "Suspend")
    )
    return element(
        "div",
        first,
        careful_button(
            request,
            f"{at}/stop",
            "Stop permanently …",
            f"{count_text(row.size, 'VM')} will end, and the platform can't be resumed.",
            f"Stop {row.name}",
        ),
        class_="buttons",
    )


def _vm_state(vm: PlatformVm) -> str:
    return "leaving" if vm.leaving else vm.state


def _seen(name: str) -> Callable[[PlatformVm], float | None]:
    """Return a function that returns this amount of a VM, None if no period has seen it."""
    return lambda vm: getattr(vm, name) if isinstance(vm, SeenPlatformVm) else None


_VM_FIELDS: RowFields[PlatformVm] = RowFields(
    text=lambda vm: f"VM {vm.vm} {vm.cluster} {vm.state}",
    orders={
        "VM": lambda vm: vm.vm,
        "Cluster": lambda vm: vm.cluster,
        "Bid for CPU": _seen("bid_cpu"),
        "Gets": _seen("cpu"),
        "Memory": _seen("memory"),
    },
    numbers=("Bid for CPU", "Gets", "Memory"),
    filters={"state": _vm_state, "cluster": lambda vm: vm.cluster},
)


def _vms(rows: Sequence[PlatformVm], links: HeadLinks | None = None) -> Markup:
    return table(
        "Its VMs",
        ("VM", "Cluster", "State", "Bid for CPU", "Gets", "Memory"),
        [
            (
                link("vms", vm.vm, f"VM {vm.vm}"),
                vm.cluster,
                _vm_state(vm),
                *_gets(vm),
            )
            for vm in rows
        ],
        numbers=(3, 4, 5),
        nothing="It has no VMs at present; its state above says what it waits for.",
        links=links,
    )


def _gets(vm: PlatformVm) -> tuple[Part, Part, Part]:
    """Return the VM's bid for CPU, and its shares."""
    bid, cpu, memory = (
        (vm.bid_cpu, vm.cpu, vm.memory) if isinstance(vm, SeenPlatformVm) else (None, None, None)
    )
    return credits_text(bid), amount("cpu", cpu), amount("memory", memory)


def _actions(row: PlatformDetails) -> Markup:
    return table(
        "History of the platform",
        ("Time", "By", "Action", "Reason", ""),
        [
            (
                moment(action.at_s),
                action.who,
                action.what,
                action.text,
                element("span", f"refused: {action.refused}", class_="badge bad")
                if action.refused
                else "",
            )
            for action in row.actions
        ],
    )
