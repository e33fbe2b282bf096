"""The two views of a new platform: its form, and its template in TOML."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

from merkatd.web.base.responses import PageResponse
from merkatd.web.base.routes import PageRequest
from merkatd.web.layout.html import Markup, Part, element, field, hidden
from merkatd.web.layout.page_frame import form, page_in_frame, panel
from merkatd.web.layout.platform_fields import FIELDS, GROUPS, KINDS, NO_CONTROLLER

CHECK = "/platforms/check"
VIEW = "/platforms/view"
QUOTE = "/platforms/quote"
_TITLE = "New platform"


async def form_view(
    request: PageRequest, values: Mapping[str, str], wrong: Mapping[str, str]
) -> PageResponse:
    """Return the page with the form; `wrong` has its problems by field."""
    kinds, markets = request.house.require_platforms().offer()
    choices = {
        "controller": [(kind, _words(kind)) for kind in sorted(kinds, key=_place)],
        "market": [("", f"{markets[0]}, the first one"), *((name, name) for name in markets[1:])]
        if len(markets) > 1
        else [],
    }
    shown = {each.name: each for each in FIELDS if each.name != "market" or choices["market"]}
    groups = [
        element(
            "fieldset",
            element("legend", title),
            [
                field(
                    name,
                    shown[name].label,
                    values.get(name, ""),
                    wrong,
                    shown[name].hint,
                    choices.get(name, ()),
                    autocomplete="off",
                    inputmode="decimal" if shown[name].is_number else None,
                )
                for name in names
                if name in shown
            ],
            class_="fields",
        )
        for title, names in GROUPS
    ]
    general = element("div", _problem(wrong.get("")), data_problems=True)
    parts = [hidden({"view": "form"}), general, groups, _buttons("toml", "Show as TOML")]
    return await _page(request, panel("Platform", _form(request, parts)), bad=bool(wrong))


async def toml_view(
    request: PageRequest, text: str, problems: Sequence[str] = (), note: str = ""
) -> PageResponse:
    """Return the page with the template in TOML, and all its problems."""
    wrong = "\n".join(problems)
    area = element(
        "textarea",
        "\n",
        text,
        id="field-template",
        name="template",
        rows=24,
        spellcheck="false",
        aria_describedby="wrong-template" if wrong else None,
        aria_invalid="true" if wrong else None,
    )
    words = element("p", note, class_="quiet", role="status") if note else None
    label = element("label", "The template, in TOML", for_="field-template")
    problem = _problem(wrong, "wrong-template")
    parts = [words, element("div", label, area, problem), _buttons("form", "Show as a form")]
    return await _page(request, panel("Template", _form(request, parts)), bad=bool(wrong))


async def _page(request: PageRequest, main: Part, *, bad: bool) -> PageResponse:
    status = HTTPStatus.UNPROCESSABLE_ENTITY if bad else HTTPStatus.OK
    return await page_in_frame(request, _TITLE, element("h1", _TITLE), main, status=status)


def _form(request: PageRequest, parts: Part) -> Markup:
    return form(request, QUOTE, parts, check=CHECK)


def _buttons(other: str, words: str) -> list[Part]:
    quote = element("button", "Show the quote", type="submit", class_="main")
    switch = element(
        "button", words, type="submit", formaction=VIEW, name="to", value=other, formnovalidate=True
    )
    return [quote, " ", switch]


def _problem(words: str | None, id_: str = "wrong") -> Part:
    return element("p", words, class_="wrong", id=id_, role="alert") if words else None


def _words(kind: str) -> str:
    return f"{kind}: {KINDS[kind]}" if kind in KINDS else kind


def _place(kind: str) -> tuple[bool, str]:
    """Return the place of a kind in the list: the first one is no controller."""
    return kind != NO_CONTROLLER, kind
