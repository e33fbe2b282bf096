"""The pages of VMs: the list, and each VM with its share and its bid."""

from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus

import numpy as np

from merkatd.cluster.columns import NO_HOST, NO_OWNER
from merkatd.protocol.control_messages import BID_SOURCES
from merkatd.service.base.errors import InvalidRequestError, UnknownObjectError
from merkatd.service.base.order_limits import SMALL
from merkatd.service.base.period_view import PeriodView
from merkatd.service.market.bids import BidOutcome
from merkatd.service.market.explanations import ExplainedResource, ExplainedVm
from merkatd.service.market.quotes import ExistingVm, QuotedVm
from merkatd.web.base.charts import NAMES
from merkatd.web.base.responses import PageResponse, redirect
from merkatd.web.base.routes import PageRequest, fields, route
from merkatd.web.layout.history_panels import over_time, vm_charts, vm_gaps
from merkatd.web.layout.html import (
    NOTHING,
    Markup,
    Part,
    WrongInputError,
    element,
    field,
    hidden,
    input_text,
    numbers,
)
from merkatd.web.layout.page_frame import form, page_in_frame, panel
from merkatd.web.layout.row_lists import list_page
from merkatd.web.layout.widgets import (
    NONE,
    amount,
    bar,
    credits_text,
    facts,
    link,
    steps_table,
    table,
    tenant,
)
from merkatd.web.pages import visible_rows
from merkatd.web.pages.row_tables import vm_fields, vms_table
from merkatd.web.pages.visible_rows import steps_of_vm

_LESS = 0.995
"""The part of the decided share below which an allocation counts as smaller."""


def gets_table(view: PeriodView, row: int, resources: Sequence[ExplainedResource]) -> Markup:
    """Return the table of resources of the VM in this row, with their explanations."""
    gets = dict(zip(view.snapshot.resources, view.given()[row].tolist(), strict=True))
    return table(
        "Shares of each resource",
        ("", "Gets", "", "Cap", "Last use", "Bid", "Pays", "Reason for the limit"),
        [
            (
                NAMES.get(resource.resource, resource.resource),
                amount(resource.resource, gets[resource.resource]),
                bar(
                    gets[resource.resource] / resource.most if resource.most else 0.0,
                    class_="wider",
                ),
                amount(resource.resource, resource.most),
                _used(resource),
                credits_text(resource.bid),
                credits_text(resource.cost),
                _why(view, row, resource, gets[resource.resource]),
            )
            for resource in resources
        ],
        numbers=(1, 3, 4, 5, 6),
        nothing="It has no resources.",
    )


def _used(resource: ExplainedResource) -> Part:
    return NONE if resource.used is None else amount(resource.resource, resource.used)


def _why(view: PeriodView, row: int, resource: ExplainedResource, gets: float) -> str:
    """Return the reason for the limit of the share; the host's reason before the market's."""
    if _placed(view, row) and gets < _LESS * resource.share:
        decided = amount(resource.resource, resource.share)
        return f"{decided} were decided, but VMs that will leave its host are still there"
    holds = view.limits.holding_mib.get(int(view.snapshot.vms.id[row]))
    if resource.resource == "memory" and holds is not None and abs(holds - gets) >= 1.0:
        return f"it holds {amount('memory', holds)}, which it uses or can't release"
    return resource.why_not_more


def has_less(view: PeriodView, row: int) -> str:
    """Return a sentence if the VM's host can't give it the decided share now, else ""."""
    if np.any(view.given()[row] < _LESS * view.decision.allocations[row]) and _placed(view, row):
        return "It gets less than that until other VMs have left its host."
    return ""


def _placed(view: PeriodView, row: int) -> bool:
    return int(view.host[row]) != NO_HOST


_STEPS = 50


@route("GET", "/vms")
async def vms(request: PageRequest) -> PageResponse:
    """Return the list of VMs, a hundred per page."""
    rows, now = visible_rows.vms(request), request.now
    shown = partial(vms_table, now, visible_rows.host_ids(request))
    return await list_page(request, "VMs", "VM", rows, shown, vm_fields(now))


@route("GET", "/vms/{}")
async def vm(request: PageRequest) -> PageResponse:
    """Return the page of a VM."""
    try:
        explained = await visible_rows.explained(request)
    except UnknownObjectError as refusal:
        return await _gone(request, refusal)
    return await _shown(request, explained)


@route("POST", "/vms/{}/quote", quotes=True)
async def quote(request: PageRequest) -> PageResponse:
    """Return the quote for another bid."""
    explained = await visible_rows.explained(request)
    values = fields(request.asked, *request.house.world.goods.resources)
    try:
        bid = _bid(values)
        subject = ExistingVm(request.id)
        quoted = await request.house.quotes.quote(request.caller, request.view, subject, bid, {})
    except (WrongInputError, InvalidRequestError) as error:
        wrong = error.wrong if isinstance(error, WrongInputError) else {"cpu": str(error)}
        return await _shown(request, explained, values, wrong)
    return await page_in_frame(request, "Quote", *_quoted(request, explained, quoted, bid))


@route("POST", "/vms/{}/bid")
async def bid_(request: PageRequest) -> PageResponse:
    """Set the bid from the next period on."""
    values = fields(request.asked, *request.house.world.goods.resources)
    try:
        bid = _bid(values)
        request.count_order(SMALL, request.id, bid)
        await request.house.bids.set_bid(request.caller, request.view, request.id, bid)
    except (WrongInputError, InvalidRequestError) as error:
        wrong = error.wrong if isinstance(error, WrongInputError) else {"cpu": str(error)}
        return await _shown(request, await visible_rows.explained(request), values, wrong)
    what = " and ".join(
        f"{credits_text(value)} credits a period for {name.replace('cpu', 'CPU')}"
        for name, value in bid.items()
    )
    return redirect(f"/vms/{request.id}", f"VM {request.id} bids {what} from the next period on.")


def _bid(values: Mapping[str, str]) -> dict[str, float]:
    bid = numbers(values)
    if not bid:
        raise WrongInputError({"cpu": "Enter a bid for at least one resource."})
    return bid


async def _gone(request: PageRequest, refusal: UnknownObjectError) -> PageResponse:
    """Return the page of a VM that no longer exists, for visitors who could see it before."""
    owner = request.past.owner(request.id)
    if not request.admin and owner != request.uid:
        raise refusal
    decided = await steps_of_vm(request, _STEPS)
    if owner is None and not decided:
        raise refusal
    return await page_in_frame(
        request,
        f"VM {request.id}",
        element("h1", f"VM {request.id}"),
        element("p", "This VM no longer exists.", class_="lead"),
        None if owner is None else over_time(request, vm_charts(request, owner), *vm_gaps(request)),
        panel("Decisions", steps_table(decided, visible_rows.host_ids(request))),
    )


async def _shown(
    request: PageRequest,
    explained: ExplainedVm,
    values: Mapping[str, str] | None = None,
    wrong: Mapping[str, str] | None = None,
) -> PageResponse:
    hosts = visible_rows.host_ids(request)
    decided = await steps_of_vm(request, _STEPS)
    now = request.now
    row = now.snapshot.vm_row(request.id)
    title = explained.name or f"VM {request.id}"
    mine = request.admin or explained.owner == request.uid
    bids = await _in_force(request, explained) if mine else None
    status = HTTPStatus.UNPROCESSABLE_ENTITY if wrong else HTTPStatus.OK
    return await page_in_frame(
        request,
        title,
        element("h1", title, " ", element("small", f"VM {request.id}", class_="quiet")),
        element("p", explained.sentence, " ", has_less(now, row), class_="lead"),
        element("p", explained.standing) if explained.standing else NOTHING,
        element(
            "div",
            panel(
                "Gets",
                gets_table(now, row, explained.resources),
                facts(_facts(explained, hosts, mine=mine)),
            ),
            panel("Bid", _bid_form(request, explained, bids, values, wrong or {}))
            if mine
            else NOTHING,
            class_="grid",
        ),
        over_time(request, vm_charts(request, _owner(explained)), *vm_gaps(request)),
        panel("Decisions", steps_table(decided, hosts)),
        status=status,
    )


def _owner(explained: ExplainedVm) -> int:
    return NO_OWNER if explained.owner is None else int(explained.owner)


async def _in_force(request: PageRequest, explained: ExplainedVm) -> BidOutcome | None:
    """Return the most recent bids, which may not have applied in any period yet."""
    if not explained.resources:
        return None
    bids = request.house.bids
    outcome: BidOutcome = await request.read(
        ("bid", request.id), lambda: bids.read_bid(request.caller, request.view, request.id)
    )
    return outcome


def _facts(
    explained: ExplainedVm, hosts: Mapping[str, int], *, mine: bool
) -> list[tuple[str, Part]]:
    """Return the facts about a VM; only its owner and administrators see the balance."""
    owner = _owner(explained)
    why = explained.why_here
    rows: list[tuple[str, Part]] = [
        ("Tenant", tenant(owner, {owner: explained.owner_name or ""})),
        ("State", explained.state.lower()),
        ("Host", link("hosts", hosts.get(explained.host or ""), explained.host)),
        ("Pays", f"{credits_text(explained.cost)} credits a period"),
        *([("Balance", f"{credits_text(explained.balance)} credits")] if mine else ()),
        ("Source of the bid", BID_SOURCES.get(explained.bid_source, explained.bid_source)),
    ]
    if why is not None:
        period = link("periods", why.period, f"period {why.period}")
        rows.append(("Here since", [period, f": {why.reason}"]))
    return rows


def _bid_form(
    request: PageRequest,
    explained: ExplainedVm,
    bids: BidOutcome | None,
    values: Mapping[str, str] | None,
    wrong: Mapping[str, str],
) -> Part:
    if bids is None:
        return element("p", "It has no resources, so no bid applies.", class_="quiet")
    held = {resource.resource: resource.old for resource in bids.resources}
    # A form with the default, which is lowered while credits are short, would store it for good.
    default = held.keys() - bids.stored if bids.vm not in request.now.rates else frozenset()
    shown = {name: "" if name in default else input_text(bid) for name, bid in held.items()}
    inputs = [
        field(
            name,
            f"Bid for {NAMES[name].lower() if name != 'cpu' else 'CPU'}",
            (values or shown).get(name, ""),
            wrong,
            f"Credits a period. If empty, the default applies, now {credits_text(held[name])}."
            if name in default
            else "Credits a period.",
            inputmode="decimal",
            autocomplete="off",
        )
        for name in held
    ]
    old = {resource.resource: resource.bid for resource in explained.resources}
    changed = None
    if any(old[name] != bid for name, bid in held.items()):
        changed = element(
            "p", "These bids apply from the next period on.", class_="quiet", role="status"
        )
    submit = element("button", "Show the quote", type="submit", class_="main")
    return form(request, f"/vms/{request.id}/quote", changed, inputs, submit)


def _quoted(
    request: PageRequest, explained: ExplainedVm, quoted: QuotedVm, bid: Mapping[str, float]
) -> list[Part]:
    now = {resource.resource: resource for resource in explained.resources}
    title = explained.name or f"VM {request.id}"
    rows = [
        (
            NAMES.get(resource.resource, resource.resource),
            credits_text(now[resource.resource].bid),
            credits_text(resource.bid),
            amount(resource.resource, now[resource.resource].share),
            amount(resource.resource, resource.share),
            credits_text(now[resource.resource].cost),
            credits_text(resource.cost),
        )
        for resource in quoted.resources
        if resource.resource in now
    ]
    heads = ("", "Bid now", "New bid", "Gets now", "Would get", "Pays now", "Would pay")
    confirm = element("button", "Bid this from the next period on", type="submit", class_="main")
    return [
        element("h1", f"Quote for {title}"),
        panel(
            "Effect of the new bid",
            element("p", "At present, if no other bid changes.", class_="quiet"),
            table("The bids and their shares", heads, rows, numbers=(1, 2, 3, 4, 5, 6)),
            form(
                request,
                f"/vms/{request.id}/bid",
                hidden({name: repr(value) for name, value in bid.items()}),
                confirm,
                " ",
                element("a", "Cancel", href=f"/vms/{request.id}"),
            ),
        ),
    ]
