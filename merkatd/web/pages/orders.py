"""Orders to the daemon: pause, go on, another mode."""

from http import HTTPStatus

from merkatd.api.questions import QuestionError
from merkatd.web.answers import Answer, go
from merkatd.web.markup import h
from merkatd.web.pages.frame import button, form, framed, panel
from merkatd.web.routes import Here, route

_MODES = {
    "dry": "Dry: decide, and do nothing of it",
    "shadow": "Shadow: do nothing, and compare with another scheduler",
    "ask": "Ask: place, move and suspend VMs once a plan is approved",
    "on": "On: do all that is decided",
}


@route("GET", "/orders", admin=True)
async def orders(here: Here) -> Answer:
    """What can be ordered."""
    return await _shown(here)


@route("POST", "/orders/pause", admin=True)
async def pause(here: Here) -> Answer:
    """Begin no more periods."""
    await here.call("merkat.daemon.pause")
    return go("/orders")


@route("POST", "/orders/resume", admin=True)
async def resume(here: Here) -> Answer:
    """Go on."""
    await here.call("merkat.daemon.resume")
    return go("/orders")


@route("POST", "/orders/mode", admin=True)
async def mode(here: Here) -> Answer:
    """Another mode from the next period on."""
    try:
        await here.call("merkat.mode.set", here.asked.field("mode"))
    except QuestionError as error:
        return await _shown(here, str(error))
    return go("/orders")


async def _shown(here: Here, wrong: str = "") -> Answer:
    how = await here.call("merkat.daemon.info")
    choice = [
        h(
            "label",
            h("input", type="radio", name="mode", value=name, checked=name == how["mode"]),
            f" {words}",
        )
        for name, words in _MODES.items()
    ]
    paused = (
        button(here, "/orders/resume", "Go on", "main")
        if how["paused"]
        else button(here, "/orders/pause", "Pause", "danger")
    )
    return await framed(
        here,
        "Orders",
        h("h1", "Orders"),
        h("p", wrong, class_="wrong", role="alert") if wrong else None,
        h(
            "div",
            panel(
                "Periods",
                h(
                    "p",
                    "No periods begin; VMs run on with the limits they have."
                    if how["paused"]
                    else "A pause begins no more periods, also after a restart; VMs run on with"
                    " the limits they have.",
                ),
                paused,
            ),
            panel(
                "Mode",
                form(
                    here,
                    "/orders/mode",
                    h("fieldset", h("legend", "How much of what is decided is done"), choice),
                    h("button", "Order it", type="submit", class_="main"),
                ),
            ),
            class_="grid",
        ),
        status=HTTPStatus.UNPROCESSABLE_ENTITY if wrong else HTTPStatus.OK,
    )
