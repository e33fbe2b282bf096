"""The forms of platforms: submit, change, suspend, resume and stop them, with quotes."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from secrets import token_hex
from typing import Any

from merkatd.api.values.platform_arguments import update_of
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import ConflictError, InvalidRequestError
from merkatd.service.base.order_limits import WHOLE
from merkatd.service.platforms import PlatformDetails
from merkatd.web.base.form_reader import MOST_LONG_BYTES
from merkatd.web.base.responses import PageResponse, redirect
from merkatd.web.base.routes import PageRequest, fields, route
from merkatd.web.layout.html import Part, WrongInputError, element, hidden, numbers
from merkatd.web.layout.page_frame import form, page_in_frame, panel
from merkatd.web.layout.widgets import facts
from merkatd.web.pages.platform_pages import NAMES, platform_page, progress_facts, shown_platform

_REFUSED = (InvalidRequestError, ConflictError)
"""The errors that a form shows beside its fields."""
_EXAMPLE = """\
name = "weather"

[controller]
kind = "none"

[budget]
credits = 500

[slo]
deadline = "2h"

[[cluster]]
name = "ranks"
least = 2
initial = 2
template = \"\"\"
CPU = "1"
VCPU = "1"
MEMORY = "512"
\"\"\"
"""


@route("GET", "/platforms/new")
async def new(request: PageRequest) -> PageResponse:
    """Return the form for a new platform."""
    return await _form(request, _EXAMPLE)


@route("POST", "/platforms/quote", quotes=True, most=MOST_LONG_BYTES)
async def quote_new(request: PageRequest) -> PageResponse:
    """Return the quote for a template."""
    text = _template(request)
    there = request.house.require_platforms()
    request.count_order(WHOLE, text)
    try:
        row = await there.try_submit(request.caller, request.uid, text)
    except _REFUSED as error:
        return await _form(request, text, str(error))
    again = element(
        "details", element("summary", "The template"), element("pre", text, tabindex="0")
    )
    # Browsers send a form twice after a double click.
    fields = {"template": text, "once": token_hex(16)}
    confirm = _confirm(request, "/platforms/submit", fields, "Submit", "/platforms/new")
    return await _quote(request, f"Quote for {row.name}", row, again, confirm)


@route("POST", "/platforms/submit", most=MOST_LONG_BYTES)
async def submit(request: PageRequest) -> PageResponse:
    """Submit a new platform."""
    text = _template(request)
    there = request.house.require_platforms()
    request.count_order(WHOLE, text)
    try:
        once = request.asked.field("once")
        row = await there.submit(request.caller, request.uid, text, once)
    except _REFUSED as error:
        return await _form(request, text, str(error))
    return redirect(f"/platforms/{row.id}")


@route("POST", "/platforms/{}/quote", quotes=True)
async def quote_change(request: PageRequest) -> PageResponse:
    """Return the quote for a change of a platform."""
    row = await shown_platform(request)
    values = fields(request.asked, *NAMES)
    there = request.house.require_platforms()
    try:
        change = _change(values)
        request.count_order(WHOLE, request.id, change)
        new_row = await there.try_update(request.caller, request.id, update_of(change))
    except (WrongInputError, *_REFUSED) as error:
        return await _refused(request, row, values, error)
    confirm = _confirm(
        request, f"/platforms/{request.id}/change", values, "Change the platform", None
    )
    return await _quote(request, f"Quote for {row.name}", new_row, confirm)


@route("POST", "/platforms/{}/change")
async def change_(request: PageRequest) -> PageResponse:
    """Change the goals or the budget of a platform."""
    row = await shown_platform(request)
    values = fields(request.asked, *NAMES)
    there = request.house.require_platforms()
    try:
        change = _change(values)
        request.count_order(WHOLE, request.id, change)
        await there.update(request.caller, request.id, update_of(change))
    except (WrongInputError, *_REFUSED) as error:
        return await _refused(request, row, values, error)
    return redirect(f"/platforms/{request.id}")


@route("POST", "/platforms/{}/suspend")
async def suspend(request: PageRequest) -> PageResponse:
    """Suspend the platform until an order to resume it."""
    return await _order(request, request.house.require_platforms().suspend)


@route("POST", "/platforms/{}/resume")
async def resume(request: PageRequest) -> PageResponse:
    """Resume the platform now, at any price."""
    return await _order(request, request.house.require_platforms().resume)


@route("POST", "/platforms/{}/stop")
async def stop(request: PageRequest) -> PageResponse:
    """Stop the platform permanently."""
    return await _order(request, request.house.require_platforms().stop)


async def _order(
    request: PageRequest, order: Callable[[Caller, int], Awaitable[PlatformDetails]]
) -> PageResponse:
    request.count_order(WHOLE, request.id)
    try:
        await order(request.caller, request.id)
    except ConflictError as error:
        return await _refused(request, await shown_platform(request), {}, error)
    return redirect(f"/platforms/{request.id}")


def _template(request: PageRequest) -> str:
    return request.asked.field("template").replace("\r\n", "\n")


def _change(values: Mapping[str, str]) -> dict[str, Any]:
    change: dict[str, Any] = dict(numbers({name: values[name] for name in NAMES[1:]}))
    if values["deadline"]:
        change["deadline"] = values["deadline"]
    if not change:
        raise WrongInputError({"deadline": "Change at least one field."})
    return change


async def _refused(
    request: PageRequest, row: PlatformDetails, values: Mapping[str, str], error: Exception
) -> PageResponse:
    wrong = (
        error.wrong
        if isinstance(error, WrongInputError)
        else {_about(str(error), values): str(error)}
    )
    parts = await platform_page(request, row, values, wrong)
    return await page_in_frame(request, row.name, *parts, status=HTTPStatus.UNPROCESSABLE_ENTITY)


def _about(message: str, values: Mapping[str, str]) -> str:
    """Return the field that the message starts with, else the first non-empty field."""
    name = message.partition(":")[0]
    filled = [field for field in NAMES if values.get(field)]
    return name if name in NAMES else next(iter(filled), NAMES[0])


async def _form(request: PageRequest, text: str, wrong: str = "") -> PageResponse:
    problem = element("p", wrong, class_="wrong", id="wrong", role="alert") if wrong else None
    area = element(
        "textarea",
        "\n",
        text,
        id="template",
        name="template",
        rows=24,
        spellcheck="false",
        aria_describedby="wrong" if wrong else None,
        aria_invalid="true" if wrong else None,
    )
    return await page_in_frame(
        request,
        "New platform",
        element("h1", "New platform"),
        panel(
            "Template",
            form(
                request,
                "/platforms/quote",
                element("label", "The template, in TOML", for_="template"),
                problem,
                area,
                element("button", "Show the quote", type="submit", class_="main"),
            ),
        ),
        status=HTTPStatus.UNPROCESSABLE_ENTITY if wrong else HTTPStatus.OK,
    )


def _confirm(
    request: PageRequest, action: str, values: Mapping[str, str], words: str, back: str | None
) -> Part:
    return form(
        request,
        action,
        hidden(values),
        element("button", words, type="submit", class_="main"),
        " ",
        element("a", "Cancel", href=back or f"/platforms/{request.id}"),
    )


async def _quote(
    request: PageRequest, title: str, row: PlatformDetails, *parts: Part
) -> PageResponse:
    names = request.now.owner_names
    return await page_in_frame(
        request,
        "Quote",
        element("h1", title),
        panel(
            "Effect",
            element("p", "At present prices. Nothing is changed yet.", class_="quiet"),
            facts(progress_facts(request, row, names)),
            *parts,
        ),
    )
