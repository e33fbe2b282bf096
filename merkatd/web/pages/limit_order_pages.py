"""The pages of limit orders: the book, the visitor's orders, and forms to change them."""

from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus

from merkatd.scheduler.terms.ordered_vms import takes_orders
from merkatd.service.base.errors import (
    ConflictError,
    InvalidRequestError,
    NotPermittedError,
    UnknownObjectError,
)
from merkatd.service.base.limit_terms import MOST_VMS
from merkatd.service.base.order_limits import SMALL
from merkatd.service.base.period_view import as_id
from merkatd.service.limit_quotes import Bundle, QuotedLimit, QuotedTerms
from merkatd.service.market.stated_orders import BookedOrder, ListedOrder
from merkatd.web.base.responses import PageResponse, redirect
from merkatd.web.base.routes import PageRequest, fields, route
from merkatd.web.layout.html import Markup, Part, WrongInputError, element, hidden, numbers
from merkatd.web.layout.limit_order_panels import (
    MINUTE_S,
    TERMS,
    book_table,
    order_facts,
    order_fields,
    order_sentence,
    orders_table,
    quoted_parts,
    term_fields,
    vms_field,
)
from merkatd.web.layout.page_frame import (
    busy_markets,
    careful_button,
    folded_panel,
    form,
    page_in_frame,
    panel,
)
from merkatd.web.layout.row_lists import chosen_rows, page_of_rows
from merkatd.web.layout.widgets import count_text, facts
from merkatd.web.pages import visible_rows

_PATH = "/limit-orders"
_TIMES = ("work_h", "within_h")
_STATED = ("vms", *TERMS, *_TIMES)
_HOUR_S = 3_600.0
_FIELD_OF = {"least_run_s": "least_run_min", "work_s": "work_h", "within_s": "within_h"}
"""The form's field of an argument that an error names; else they have the same name."""
_REFUSED = (InvalidRequestError, ConflictError, NotPermittedError, UnknownObjectError)


@route("GET", _PATH)
async def limit_orders(request: PageRequest) -> PageResponse:
    """Return the page of limit orders."""
    return await _all(request)


@route("POST", f"{_PATH}/quote", quotes=True)
async def quote(request: PageRequest) -> PageResponse:
    """Return the quote of a new limit order."""
    values = fields(request.asked, *_STATED)
    try:
        vms = _vms(request, values["vms"])
        quoted = await _quoted(request, vms, values)
    except (WrongInputError, *_REFUSED) as error:
        return await _all(request, values, _wrong(error))
    confirm = _confirm(request, f"{_PATH}/state", values, "State the order", _PATH)
    return await _quote_page(request, "Quote of a limit order", quoted, confirm)


@route("POST", f"{_PATH}/state")
async def state(request: PageRequest) -> PageResponse:
    """State a new limit order, from the next period on."""
    values = fields(request.asked, *_STATED)
    try:
        vms = _vms(request, values["vms"])
        terms = _terms(values, new=True)
        request.count_order(SMALL * max(len(vms), 1), vms, terms)
        await request.house.limit_orders.state(request.caller, request.now, vms, **terms)
    except (WrongInputError, *_REFUSED) as error:
        return await _all(request, values, _wrong(error))
    said = "The limit order is stated: the next period decides whether its VMs run."
    return redirect(_PATH, said)


@route("GET", f"{_PATH}/{{}}")
async def limit_order(request: PageRequest) -> PageResponse:
    """Return the page of a limit order."""
    return await _one(request, await _shown(request))


@route("POST", f"{_PATH}/{{}}/quote", quotes=True)
async def quote_change(request: PageRequest) -> PageResponse:
    """Return the quote of other terms of a limit order."""
    order = await _shown(request)
    values = fields(request.asked, *TERMS, *_TIMES)
    try:
        quoted = await _quoted(request, order.vms, values, order)
    except (WrongInputError, *_REFUSED) as error:
        return await _one(request, order, values, _wrong(error))
    at = f"{_PATH}/{order.id}"
    confirm = _confirm(request, f"{at}/change", values, "Change the order", at)
    return await _quote_page(request, f"Quote of limit order {order.id}", quoted, confirm)


@route("POST", f"{_PATH}/{{}}/change")
async def change(request: PageRequest) -> PageResponse:
    """Change the terms of a limit order from the next period on."""
    order = await _shown(request)
    values = fields(request.asked, *TERMS, *_TIMES)
    try:
        terms = _terms(values, new=False)
        request.count_order(SMALL, order.id, terms)
        await request.house.limit_orders.change(request.caller, request.now, order.id, **terms)
    except (WrongInputError, *_REFUSED) as error:
        return await _one(request, order, values, _wrong(error))
    said = f"Limit order {order.id} is changed from the next period on."
    return redirect(f"{_PATH}/{order.id}", said)


@route("POST", f"{_PATH}/{{}}/withdraw")
async def withdraw(request: PageRequest) -> PageResponse:
    """Delete a limit order: the bids of its VMs count again from the next period on."""
    order = await _shown(request)
    request.count_order(SMALL, order.id)
    try:
        await request.house.limit_orders.withdraw(request.caller, request.now, order.id)
    except _REFUSED as error:
        return await _one(request, order, {}, {"limit": str(error)})
    said = f"Limit order {order.id} is withdrawn: the bids of its VMs count again."
    return redirect(_PATH, said)


async def _orders(request: PageRequest) -> Sequence[ListedOrder]:
    """Return the visitor's limit orders; for an administrator, all."""
    read = partial(request.house.limit_orders.orders, request.caller, request.now)
    orders: Sequence[ListedOrder] = await request.read(
        ("limit orders",), lambda: request.house.long_reads.run(request.uid, read)
    )
    return orders


async def _book(request: PageRequest, market: str) -> Sequence[BookedOrder]:
    read = partial(request.house.limit_orders.book, request.caller, request.now, market)
    book: Sequence[BookedOrder] = await request.read(
        ("limit order book", market), lambda: request.house.long_reads.run(request.uid, read)
    )
    return book


async def _shown(request: PageRequest) -> ListedOrder:
    """Return the limit order of the address. Raise UnknownObjectError if it is not visible."""
    for order in await _orders(request):
        if order.id == request.id:
            return order
    raise UnknownObjectError(f"Error getting limit order [{request.id}].", request.id)


def _vms(request: PageRequest, text: str) -> list[int]:
    """Return the ids of VMs given by ids, or by names among the visitor's VMs."""
    words = text.replace(",", " ").split()
    if not words:
        raise WrongInputError({"vms": "Enter the ids or the names of the VMs."})
    table, ids, named = request.now.snapshot.vms, [], dict[str, list[int]]()
    wanted = {word for word in words[: MOST_VMS + 1] if as_id(word) is None}
    for row in visible_rows.vms(request) if wanted else ():
        if table.name[row] in wanted:
            named.setdefault(table.name[row], []).append(row)
    for word in words[: MOST_VMS + 1]:
        id_ = as_id(word)
        if id_ is None:
            rows = named.get(word, [])
            if len(rows) != 1:
                number = f"{len(rows)} VMs" if rows else "No VM"
                raise WrongInputError({"vms": f"{number} of yours has the name {word[:40]!r}."})
            id_ = int(table.id[rows[0]])
        ids.append(id_)
    return ids


def _terms(values: Mapping[str, str], *, new: bool) -> dict[str, float]:
    """Return the given terms, as the service names them; `new` ones need a limit.

    Raise WrongInputError.
    """
    given = numbers({name: values.get(name, "") for name in TERMS})
    if "least_run_min" in given:
        given["least_run_s"] = given.pop("least_run_min") * MINUTE_S
    if new and "limit" not in given:
        raise WrongInputError({"limit": "Enter the most credits a period."})
    if not given:
        raise WrongInputError({"limit": "Change at least one of the terms."})
    return given


async def _quoted(
    request: PageRequest,
    vms: Sequence[int],
    values: Mapping[str, str],
    order: ListedOrder | None = None,
) -> QuotedLimit:
    """Return the quote of these VMs, with the odds of the given limit, or of several ones."""
    terms, times = (
        _terms(values, new=order is None),
        numbers({name: values.get(name, "") for name in _TIMES}),
    )
    request.count_order(SMALL * max(len(vms), 1), list(vms), terms)
    limit = terms.get("limit", None if order is None else order.limit)
    hours = [times.get(name) for name in _TIMES]
    work_s, within_s = (None if each is None else each * _HOUR_S for each in hours)
    ask = partial(
        request.house.limit_quotes.quote,
        request.caller,
        request.view,
        Bundle(vms=list(vms)),
        QuotedTerms(None if limit is None else [limit], work_s, within_s),
    )
    quoted: QuotedLimit = await request.house.long_reads.run(request.uid, ask)
    return quoted


def _wrong(error: Exception) -> Mapping[str, str]:
    """Return the message by the field that it is about."""
    if isinstance(error, WrongInputError):
        return error.wrong
    text = str(error)
    name = text.partition(":")[0]
    name = _FIELD_OF.get(name, name)
    return {name if name in _STATED else "vms": text}


async def _all(
    request: PageRequest,
    values: Mapping[str, str] | None = None,
    wrong: Mapping[str, str] | None = None,
) -> PageResponse:
    orders = await _orders(request)
    names = request.now.owner_names
    shown = partial(orders_table, names)
    rows = chosen_rows(request, orders, shown, order_fields(names), "limit order", _PATH)
    markets = [market.name for market in request.house.world.markets if takes_orders(market)]
    book = partial(book_table, request.now.snapshot.resources)
    busy = busy_markets(request)
    books = [
        (panel if market in busy else folded_panel)(
            f"Order book of market {market}" if len(markets) > 1 else "Order book",
            element(
                "p",
                "All limit orders of the market, without names. An order starts if it can pay"
                " more, as a multiple of the present prices, than those that need its room.",
                class_="quiet",
            ),
            *page_of_rows(request, await _book(request, market), book, _PATH, "book"),
        )
        for market in markets
    ]
    return await page_in_frame(
        request,
        "Limit orders",
        element("h1", "Limit orders"),
        element(
            "p",
            "The VMs of a limit order run together at full size while they cost at most its limit."
            " Else none of them runs, and they cost nothing.",
            class_="lead",
        ),
        panel(count_text(len(orders), "limit order"), *rows),
        panel("New limit order", _new_form(request, values or {}, wrong or {}))
        if markets
        else element("p", "No market of this cloud takes limit orders.", class_="quiet"),
        *books,
        status=HTTPStatus.UNPROCESSABLE_ENTITY if wrong else HTTPStatus.OK,
    )


async def _one(
    request: PageRequest,
    order: ListedOrder,
    values: Mapping[str, str] | None = None,
    wrong: Mapping[str, str] | None = None,
) -> PageResponse:
    title = f"Limit order {order.id}"
    parts: list[Part] = [panel("Now", facts(order_facts(order, request.now.owner_names)))]
    if order.platform is None:
        at = f"{_PATH}/{order.id}"
        parts.append(
            panel(
                "Change",
                form(
                    request,
                    f"{at}/quote",
                    term_fields(values or {}, wrong or {}, order),
                    element("button", "Show the quote", type="submit", class_="main"),
                ),
                careful_button(
                    request,
                    f"{at}/withdraw",
                    "Withdraw the order …",
                    "The bids of its VMs count again. A withdrawn order can't be restored.",
                    f"Withdraw order {order.id}",
                ),
            )
        )
    return await page_in_frame(
        request,
        title,
        element("h1", title),
        element("p", order_sentence(order), class_="lead"),
        element("div", *parts, class_="grid"),
        status=HTTPStatus.UNPROCESSABLE_ENTITY if wrong else HTTPStatus.OK,
    )


def _new_form(request: PageRequest, values: Mapping[str, str], wrong: Mapping[str, str]) -> Markup:
    return form(
        request,
        f"{_PATH}/quote",
        vms_field(values, wrong),
        term_fields(values, wrong, None),
        element("button", "Show the quote", type="submit", class_="main"),
    )


def _confirm(
    request: PageRequest, action: str, values: Mapping[str, str], words: str, back: str
) -> Part:
    return form(
        request,
        action,
        hidden(values),
        element("button", words, type="submit", class_="main"),
        " ",
        element("a", "Cancel", href=back),
    )


async def _quote_page(
    request: PageRequest, title: str, quoted: QuotedLimit, confirm: Part
) -> PageResponse:
    return await page_in_frame(
        request,
        "Quote",
        element("h1", title),
        panel("Effect of the order", *quoted_parts(quoted), confirm),
    )
