"""VMs: all as a table, each with why it gets what it gets, its history, and its bid."""

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

from merkatd.api.questions import QuestionError
from merkatd.api.xmlrpc.words import Code, Refusal
from merkatd.web.answers import Answer, go
from merkatd.web.charts import NAMES
from merkatd.web.markup import NOTHING, Part, h
from merkatd.web.pages import seen
from merkatd.web.pages.fields import WrongInputError, field, hidden, numbers
from merkatd.web.pages.frame import form, framed, panel
from merkatd.web.pages.lists import listed
from merkatd.web.pages.over_time import over_time, vm_charts, vm_gaps
from merkatd.web.pages.parts import (
    NOBODY,
    amount,
    counted,
    credits_,
    facts,
    link,
    steps_table,
    table,
    tenant,
)
from merkatd.web.pages.steps import steps_of_vm
from merkatd.web.pages.vm_gets import gets_table, has_less
from merkatd.web.pages.vm_rows import vms_table
from merkatd.web.routes import Here, fields, route

_STEPS = 50


@route("GET", "/vms")
async def vms(here: Here) -> Answer:
    """All VMs, a hundred a page."""
    rows, now = seen.vms(here), here.now
    shown = partial(vms_table, now, seen.host_ids(here))
    return await listed(here, "VMs", counted(len(rows), "VM"), rows, shown)


@route("GET", "/vms/{}")
async def vm(here: Here) -> Answer:
    """One VM."""
    try:
        found = await seen.explained(here)
    except Refusal as refusal:
        if refusal.code is Code.NO_EXISTS:
            return await _gone(here, refusal)
        raise
    return await _shown(here, found)


@route("POST", "/vms/{}/quote", quotes=True)
async def quote(here: Here) -> Answer:
    """What another bid would get, before it is made."""
    found = await seen.explained(here)
    said = fields(here.asked, *here.house.world.goods.resources)
    try:
        bid = _bid(said)
        quoted = await here.call("merkat.quote.bid", here.id, bid, {})
    except (WrongInputError, QuestionError) as error:
        wrong = error.wrong if isinstance(error, WrongInputError) else {"cpu": str(error)}
        return await _shown(here, found, said, wrong)
    return await framed(here, "Quote", *_quoted(here, found, quoted, bid))


@route("POST", "/vms/{}/bid")
async def bid_(here: Here) -> Answer:
    """Bid otherwise from the next period on."""
    said = fields(here.asked, *here.house.world.goods.resources)
    try:
        await here.call("merkat.bid.set", here.id, _bid(said))
    except (WrongInputError, QuestionError) as error:
        wrong = error.wrong if isinstance(error, WrongInputError) else {"cpu": str(error)}
        return await _shown(here, await seen.explained(here), said, wrong)
    return go(f"/vms/{here.id}")


def _bid(said: Mapping[str, str]) -> dict[str, float]:
    found = numbers(said)
    if not found:
        raise WrongInputError({"cpu": "A bid for at least one of them is right."})
    return found


async def _gone(here: Here, refusal: Refusal) -> Answer:
    """What is known of a VM that there was, for who could see it then."""
    owner = here.past.owner(here.id)
    if not here.admin and owner != here.uid:
        raise refusal
    decided = await steps_of_vm(here, here.id, _STEPS)
    if owner is None and not decided:
        raise refusal
    return await framed(
        here,
        f"VM {here.id}",
        h("h1", f"VM {here.id}"),
        h("p", "It is gone.", class_="lead"),
        None if owner is None else over_time(vm_charts(here, owner), *vm_gaps(here)),
        panel("Decisions", steps_table(decided, seen.host_ids(here))),
    )


async def _shown(
    here: Here,
    found: Mapping[str, Any],
    said: Mapping[str, str] | None = None,
    wrong: Mapping[str, str] | None = None,
) -> Answer:
    hosts = seen.host_ids(here)
    decided = await steps_of_vm(here, here.id, _STEPS)
    now = here.now
    row = now.snapshot.vm_row(here.id)
    title = found["name"] or f"VM {here.id}"
    mine = here.admin or found["owner"] == here.uid
    bids = await _in_force(here, found) if mine else {}
    status = HTTPStatus.UNPROCESSABLE_ENTITY if wrong else HTTPStatus.OK
    return await framed(
        here,
        title,
        h("h1", title, " ", h("small", f"VM {here.id}", class_="quiet")),
        h("p", found["sentence"], " ", has_less(now, row), class_="lead"),
        h(
            "div",
            panel("Gets", gets_table(now, row, found), facts(_facts(found, hosts))),
            panel("Bid", _bid_form(here, found, bids, said, wrong or {})) if mine else NOTHING,
            class_="grid",
        ),
        over_time(vm_charts(here, _owner(found)), *vm_gaps(here)),
        panel("Decisions", steps_table(decided, hosts)),
        status=status,
    )


def _owner(found: Mapping[str, Any]) -> int:
    return NOBODY if found["owner"] is None else int(found["owner"])


async def _in_force(here: Here, found: Mapping[str, Any]) -> dict[str, float]:
    """The newest word on each bid, which may not have counted in any period yet."""
    if not found["resources"]:
        return {}
    said = await here.call("merkat.bid.info", here.id)
    return {one["resource"]: one["bid"] for one in said["resources"]}


def _facts(found: Mapping[str, Any], hosts: Mapping[str, int]) -> list[tuple[str, Part]]:
    owner = _owner(found)
    why = found["why_here"]
    rows: list[tuple[str, Part]] = [
        ("Tenant", tenant(owner, {owner: found["owner_name"]})),
        ("State", found["state"].lower()),
        ("Host", link("hosts", hosts.get(found["host"] or ""), found["host"])),
        ("Pays", f"{credits_(found['cost'])} credits a period"),
        ("Left to pay with", f"{credits_(found['balance'])} credits"),
        ("Bid said by", found["bid_source"]),
    ]
    if why is not None:
        period = link("periods", why["period"], f"period {why['period']}")
        rows.append(("Here since", [period, f": {why['reason']}"]))
    return rows


def _bid_form(
    here: Here,
    found: Mapping[str, Any],
    bids: Mapping[str, float],
    said: Mapping[str, str] | None,
    wrong: Mapping[str, str],
) -> Part:
    held = {name: f"{value:g}" for name, value in bids.items()}
    if not held:
        return h("p", "It holds nothing, so no bid counts.", class_="quiet")
    inputs = [
        field(
            name,
            f"Bid for {NAMES[name].lower() if name != 'cpu' else 'CPU'}",
            (said or held).get(name, ""),
            wrong,
            "Credits a period.",
            inputmode="decimal",
            autocomplete="off",
        )
        for name in held
    ]
    old = {one["resource"]: one["bid"] for one in found["resources"]}
    changed = None
    if any(old[name] != value for name, value in bids.items()):
        changed = h("p", "These bids count from the next period on.", class_="quiet", role="status")
    submit = h("button", "Show what that gets", type="submit", class_="main")
    return form(here, f"/vms/{here.id}/quote", changed, inputs, submit)


def _quoted(
    here: Here, found: Mapping[str, Any], quoted: Mapping[str, Any], bid: Mapping[str, float]
) -> list[Part]:
    now = {one["resource"]: one for one in found["resources"]}
    title = found["name"] or f"VM {here.id}"
    rows = [
        (
            NAMES.get(one["resource"], one["resource"]),
            credits_(now[one["resource"]]["bid"]),
            credits_(one["bid"]),
            amount(one["resource"], now[one["resource"]]["share"]),
            amount(one["resource"], one["share"]),
            credits_(now[one["resource"]]["cost"]),
            credits_(one["cost"]),
        )
        for one in quoted["resources"]
        if one["resource"] in now
    ]
    heads = ("", "Bid now", "New bid", "Gets now", "Would get", "Pays now", "Would pay")
    confirm = h("button", "Bid so from the next period on", type="submit", class_="main")
    return [
        h("h1", f"Quote for {title}"),
        panel(
            "What that bid would get",
            h("p", "At present, while all others bid as they do now.", class_="quiet"),
            table("The bids and what they get", heads, rows, numbers=(1, 2, 3, 4, 5, 6)),
            form(
                here,
                f"/vms/{here.id}/bid",
                hidden({name: repr(value) for name, value in bid.items()}),
                confirm,
                " ",
                h("a", "Leave it as it is", href=f"/vms/{here.id}"),
            ),
        ),
    ]
