"""The pages of administrators: the daemon's pause and mode, and the waiting plan."""

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any

from merkatd.base.quantities import credits_text
from merkatd.service.base.errors import ConflictError, InvalidRequestError, TryAgainError
from merkatd.service.proposals.standing_plans import StandingPlan, StandingStep
from merkatd.web.base.form_reader import MOST_LONG_BYTES
from merkatd.web.base.responses import PageResponse, redirect
from merkatd.web.base.routes import PageRequest, route
from merkatd.web.layout.html import Markup, Part, element, hidden
from merkatd.web.layout.page_frame import button, careful_button, form, page_in_frame, panel
from merkatd.web.layout.widgets import NONE, count_text, link, moment, table

_REFUSED = (InvalidRequestError, ConflictError)
_MODES = {
    "dry": "Dry: only decide",
    "shadow": "Shadow: only decide, and compare with another scheduler",
    "ask": "Ask: place, move and suspend VMs after a plan is approved",
    "on": "On: carry out all decisions",
}


@route("GET", "/daemon", admin=True)
async def daemon(request: PageRequest) -> PageResponse:
    """Return the page of the daemon: its pause and its mode."""
    return await _daemon_page(request)


@route("POST", "/daemon/pause", admin=True)
async def pause(request: PageRequest) -> PageResponse:
    """Pause the daemon: start no more periods."""
    await request.house.daemon.pause(request.caller, request.name)
    return redirect("/daemon", "The daemon is paused: no more periods start.")


@route("POST", "/daemon/resume", admin=True)
async def resume(request: PageRequest) -> PageResponse:
    """Resume the daemon: start periods again."""
    await request.house.daemon.resume(request.caller, request.name)
    return redirect("/daemon", "The daemon is resumed: periods start again.")


@route("POST", "/daemon/mode", admin=True)
async def mode(request: PageRequest) -> PageResponse:
    """Set the mode from the next period on."""
    chosen = request.asked.field("mode")
    try:
        await request.house.modes.set_mode(request.caller, chosen, request.name)
    except _REFUSED as error:
        return await _daemon_page(request, str(error))
    return redirect("/daemon", f"The mode is {chosen} from the next period on.")


async def _daemon_page(request: PageRequest, wrong: str = "") -> PageResponse:
    how = request.house.daemon.state()
    choice = [
        element(
            "label",
            element("input", type="radio", name="mode", value=name, checked=name == how.mode),
            f" {words}",
        )
        for name, words in _MODES.items()
    ]
    paused = (
        button(request, "/daemon/resume", "Resume", "main")
        if how.paused
        else careful_button(
            request,
            "/daemon/pause",
            "Pause …",
            "Until an administrator resumes the daemon, new VMs stay pending, new bids and orders"
            " wait, and hosts that drain keep their VMs.",
            "Pause the daemon",
        )
    )
    return await page_in_frame(
        request,
        "Daemon",
        element("h1", "Daemon"),
        element("p", wrong, class_="wrong", role="alert") if wrong else None,
        element(
            "div",
            panel(
                "Periods",
                element(
                    "p",
                    "The daemon is paused: no periods start. VMs keep running with their limits."
                    if how.paused
                    else "After a pause no periods start, also after a restart. VMs keep running"
                    " with their limits.",
                ),
                paused,
            ),
            panel(
                "Mode",
                form(
                    request,
                    "/daemon/mode",
                    element(
                        "fieldset",
                        element("legend", "The decisions that the daemon carries out"),
                        choice,
                    ),
                    element("button", "Set the mode", type="submit", class_="main"),
                ),
            ),
            class_="grid",
        ),
        status=HTTPStatus.UNPROCESSABLE_ENTITY if wrong else HTTPStatus.OK,
    )


@route("GET", "/plan", admin=True)
async def plan(request: PageRequest) -> PageResponse:
    """Return the page of the newest plan."""
    return await _plan_page(request)


@route("POST", "/plan/approve", admin=True, most=MOST_LONG_BYTES)
async def approve(request: PageRequest) -> PageResponse:
    """Approve the plan without the skipped steps."""
    modes, skipped = request.house.modes, frozenset(_numbers(request, "skip"))
    left_out = f" without {count_text(len(skipped), 'step')}" if skipped else ""
    return await _answered(
        request,
        lambda plan: modes.approve(request.caller, request.name, plan, skipped),
        f"The plan is approved{left_out}.",
    )


@route("POST", "/plan/refuse", admin=True)
async def refuse(request: PageRequest) -> PageResponse:
    """Refuse the whole plan."""
    modes = request.house.modes
    return await _answered(
        request,
        lambda plan: modes.refuse(request.caller, request.name, plan),
        "The plan is refused: none of its steps is carried out.",
    )


async def _answered(
    request: PageRequest, order: Callable[[Any], Awaitable[StandingPlan]], said: str
) -> PageResponse:
    number = request.asked.field("plan")
    known = number.isascii() and number.isdigit()
    try:
        await order(int(number) if known else number)
    except _REFUSED as error:
        return await _plan_page(request, str(error))
    return redirect("/plan", said)


def _numbers(request: PageRequest, name: str) -> list[int]:
    texts = request.asked.form.fields.get(name, ())
    return [
        int(number) for number in texts if number.isascii() and number.isdigit() and len(number) < 8
    ]


async def _plan_page(request: PageRequest, wrong: str = "") -> PageResponse:
    problem = element("p", wrong, class_="wrong", role="alert") if wrong else None
    status = HTTPStatus.UNPROCESSABLE_ENTITY if wrong else HTTPStatus.OK
    try:
        standing: StandingPlan = await request.read(
            ("plan",), lambda: request.house.modes.standing_plan(request.caller)
        )
    except (ConflictError, TryAgainError) as error:
        text = element("p", str(error), class_="quiet")
        return await page_in_frame(
            request, "Plan", element("h1", "Plan"), problem, text, status=status
        )
    # A plan can have thousands of steps.
    steps = await request.house.world.executor.run(partial(_steps, request, standing))
    return await page_in_frame(
        request,
        "Plan",
        element("h1", f"Plan {standing.plan}"),
        problem,
        panel(
            standing.state.capitalize(),
            element(
                "p",
                "Made in ",
                link("periods", standing.period, f"period {standing.period}"),
                " at ",
                moment(standing.at_s),
                f", by {standing.who}" if standing.who else "",
            ),
            steps,
        ),
        status=status,
    )


def _steps(request: PageRequest, standing: StandingPlan) -> Part:
    waits = standing.state == "waiting"
    heads = ("Step", "Kind", "VM", "From", "To", "Gain", "Cost", "Reason")
    rows = table(
        "The steps of the plan",
        (*heads, "Skip" if waits else "Result"),
        [
            (
                str(step.number),
                step.kind,
                link("vms", step.vm, step.name or f"VM {step.vm}") if step.vm >= 0 else NONE,
                _host(step.source),
                _host(step.host),
                _credits(step.gain),
                _credits(step.cost),
                step.reason,
                _skip(step) if waits else _result(step),
            )
            for step in standing.steps
        ],
        numbers=(0, 5, 6),
    )
    if not waits:
        return rows
    number = hidden({"plan": standing.plan})
    approved = element("button", "Approve without the skipped steps", type="submit", class_="main")
    return [
        form(request, "/plan/approve", number, rows, approved),
        careful_button(
            request,
            "/plan/refuse",
            "Refuse …",
            "None of its steps will be carried out.",
            f"Refuse plan {standing.plan}",
            number,
        ),
    ]


def _credits(value: float | None) -> Part:
    return None if value is None else credits_text(value)


def _host(value: Any) -> Part:
    return None if value is None else str(value)


def _skip(step: StandingStep) -> Markup:
    number = step.number
    return element(
        "input", type="checkbox", name="skip", value=number, aria_label=f"Skip step {number}"
    )


def _result(step: StandingStep) -> str:
    return "skipped" if step.skipped else step.became or ""
