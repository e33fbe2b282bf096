"""The newest decisions, with their reasons."""

from merkatd.web.answers import Answer
from merkatd.web.markup import h
from merkatd.web.pages import seen
from merkatd.web.pages.frame import framed, panel
from merkatd.web.pages.parts import steps_table
from merkatd.web.pages.steps import steps
from merkatd.web.routes import Here, route

_STEPS = 200


@route("GET", "/decisions")
async def decisions(here: Here) -> Answer:
    """What was done and why, newest first."""
    found = await steps(here, _STEPS)
    return await framed(
        here,
        "Decisions",
        h("h1", "Decisions"),
        panel(f"The newest {len(found)}", steps_table(found, seen.host_ids(here))),
    )
