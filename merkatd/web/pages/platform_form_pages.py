"""The forms of platforms: submit, change, suspend, resume and stop them, with quotes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from secrets import token_hex
from typing import Any

from merkatd.api.values.platform_arguments import update_of
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import ConflictError, InvalidRequestError
from merkatd.service.base.order_limits import WHOLE
from merkatd.service.platforms import PlatformDetails, PlatformService
from merkatd.web.base.form_reader import MOST_LONG_BYTES
from merkatd.web.base.responses import PageResponse, data, redirect
from merkatd.web.base.routes import PageRequest, fields, route
from merkatd.web.layout.html import Part, WrongInputError, compact, element, hidden, numbers
from merkatd.web.layout.page_frame import form, page_in_frame, panel
from merkatd.web.layout.platform_fields import EXAMPLE, by_field, template_of, values_of
from merkatd.web.layout.platform_fields import NAMES as FIELD_NAMES
from merkatd.web.layout.platform_form import CHECK, QUOTE, VIEW, form_view, toml_view
from merkatd.web.layout.widgets import facts
from merkatd.web.pages.platform_pages import NAMES, platform_page, progress_facts, shown_platform

_REFUSED = (InvalidRequestError, ConflictError)
"""The errors that a form shows beside its fields."""
_MOST_KEYS = 5
"""The most keys that a sentence names."""


@route("GET", "/platforms/new")
async def new(request: PageRequest) -> PageResponse:
    """Return the form for a new platform, or its view in TOML."""
    if request.asked.query.field("view") == "toml":
        return await toml_view(request, template_of(EXAMPLE))
    return await form_view(request, EXAMPLE, {})


@route("POST", VIEW, quotes=True, most=MOST_LONG_BYTES)
async def view(request: PageRequest) -> PageResponse:
    """Return the other view of a new platform, as it is, with all its problems."""
    given = _given(request)
    there = request.house.require_platforms()
    problems = await _problems(request, there, given.text)
    if request.asked.field("to") == "toml":
        return await toml_view(request, given.text, problems)
    if given.values is not None:
        return await form_view(request, given.values, by_field(problems, given.values))
    try:
        values, other = values_of(given.text)
    except ValueError:
        return await toml_view(request, given.text, problems)
    if other:
        keys = ", ".join(other[:_MOST_KEYS])
        return await toml_view(
            request, given.text, problems, f"The form has no fields for {keys}; change them here."
        )
    return await form_view(request, values, by_field(problems, values))


@route("POST", CHECK, quotes=True, most=MOST_LONG_BYTES)
async def check(request: PageRequest) -> PageResponse:
    """Return the problems by field, for the script that checks a form while the visitor types."""
    given = _given(request)
    problems = await _problems(request, request.house.require_platforms(), given.text)
    return data(compact({"wrong": _wrong(given, problems)}))


@route("POST", QUOTE, quotes=True, most=MOST_LONG_BYTES)
async def quote_new(request: PageRequest) -> PageResponse:
    """Return the quote for a new platform."""
    given = _given(request)
    there = request.house.require_platforms()
    request.count_order(WHOLE, given.text)
    problems = await _problems(request, there, given.text)
    if _wrong(given, problems):
        return await _refused_new(request, given, problems)
    try:
        row = await there.try_submit(request.caller, request.uid, given.text)
    except _REFUSED as error:
        return await _refused_new(request, given, [str(error)])
    again = element(
        "details", element("summary", "The template"), element("pre", given.text, tabindex="0")
    )
    # Browsers send a form twice after a double click.
    values = {"template": given.text, "once": token_hex(16)}
    confirm = form(
        request,
        "/platforms/submit",
        hidden(values),
        element("button", "Submit", type="submit", class_="main"),
        " ",
        element("button", "Change it", type="submit", formaction=VIEW, name="to", value="form"),
    )
    return await _quote(request, f"Quote for {row.name}", row, again, confirm, new=True)


@route("POST", "/platforms/submit", most=MOST_LONG_BYTES)
async def submit(request: PageRequest) -> PageResponse:
    """Submit a new platform."""
    given = _given(request)
    there = request.house.require_platforms()
    request.count_order(WHOLE, given.text)
    try:
        once = request.asked.field("once")
        row = await there.submit(request.caller, request.uid, given.text, once)
    except _REFUSED as error:
        return await _refused_new(request, given, [str(error)])
    return redirect(f"/platforms/{row.id}", f"Platform {row.name} is submitted.")


@dataclass(frozen=True, slots=True)
class _GivenTemplate:
    """The template that a visitor sent."""

    text: str
    values: Mapping[str, str] | None
    """The values of the form, None for a template in TOML."""


def _given(request: PageRequest) -> _GivenTemplate:
    if request.asked.field("view") != "form":
        return _GivenTemplate(request.asked.field("template").replace("\r\n", "\n"), None)
    values = fields(request.asked, *FIELD_NAMES)
    return _GivenTemplate(template_of(values), values)


async def _problems(request: PageRequest, there: PlatformService, text: str) -> Sequence[str]:
    """Return all problems of a template; one template of a visitor is checked at a time."""
    if not text:
        return ["Enter the text of a template."]
    return await request.house.long_reads.run(request.uid, partial(there.problems, text))


def _wrong(given: _GivenTemplate, problems: Sequence[str]) -> Mapping[str, str]:
    """Return the problems by field."""
    if given.values is not None:
        return by_field(problems, given.values)
    return {"template": "\n".join(problems)} if problems else {}


async def _refused_new(
    request: PageRequest, given: _GivenTemplate, problems: Sequence[str]
) -> PageResponse:
    if given.values is None:
        return await toml_view(request, given.text, problems)
    return await form_view(request, given.values, by_field(problems, given.values))


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
    confirm = _confirm(request, f"/platforms/{request.id}/change", values, "Change the platform")
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
    what = " and ".join(name for name in NAMES if values[name])
    return redirect(f"/platforms/{request.id}", f"Changed: {what} of {row.name}.")


@route("POST", "/platforms/{}/suspend")
async def suspend(request: PageRequest) -> PageResponse:
    """Suspend the platform until an order to resume it."""
    return await _order(request, request.house.require_platforms().suspend, "is suspended")


@route("POST", "/platforms/{}/resume")
async def resume(request: PageRequest) -> PageResponse:
    """Resume the platform now, at any price."""
    return await _order(request, request.house.require_platforms().resume, "is resumed")


@route("POST", "/platforms/{}/stop")
async def stop(request: PageRequest) -> PageResponse:
    """Stop the platform permanently."""
    return await _order(request, request.house.require_platforms().stop, "stops")


async def _order(
    request: PageRequest, order: Callable[[Caller, int], Awaitable[PlatformDetails]], done: str
) -> PageResponse:
    request.count_order(WHOLE, request.id)
    try:
        row = await order(request.caller, request.id)
    except ConflictError as error:
        return await _refused(request, await shown_platform(request), {}, error)
    return redirect(f"/platforms/{request.id}", f"Platform {row.name} {done}.")


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


def _confirm(request: PageRequest, action: str, values: Mapping[str, str], words: str) -> Part:
    return form(
        request,
        action,
        hidden(values),
        element("button", words, type="submit", class_="main"),
        " ",
        element("a", "Cancel", href=f"/platforms/{request.id}"),
    )


async def _quote(
    request: PageRequest, title: str, row: PlatformDetails, *parts: Part, new: bool = False
) -> PageResponse:
    names = request.now.owner_names
    return await page_in_frame(
        request,
        "Quote",
        element("h1", title),
        panel(
            "Effect",
            element("p", "At present prices. Nothing is changed yet.", class_="quiet"),
            facts(progress_facts(request, row, names, new=new)),
            *parts,
        ),
    )
