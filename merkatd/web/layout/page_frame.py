"""The frame of pages: head, navigation, buttons, the sign-in page, error pages."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from http import HTTPStatus

import numpy as np

from merkatd.base.hourly_prices import hourly_price
from merkatd.base.quantities import duration_text
from merkatd.service.base.visibility import visible_vm_rows
from merkatd.service.daemon_control import DaemonState
from merkatd.web.base.responses import LOOK_AGAIN, PageResponse, page
from merkatd.web.base.routes import PageRequest
from merkatd.web.layout.html import Markup, Part, element, hidden, joined
from merkatd.web.layout.widgets import count_text, credits_text, moment, since

_PLACES = (
    ("/", "Overview"),
    ("/hosts", "Hosts"),
    ("/vms", "VMs"),
    ("/platforms", "Platforms"),
    ("/limit-orders", "Limit orders"),
    ("/prices", "Prices"),
    ("/decisions", "Decisions"),
)
_SCRIPTS = ("uPlot.iife.min.js", "hosts.js", "charts.js", "forms.js", "live.js")
_DRY = {
    "dry": "Dry: the daemon only decides; it carries out nothing.",
    "shadow": "Shadow: the daemon carries out nothing; it compares itself with another scheduler.",
    "ask": "Ask: plans wait for approval.",
}


def document(
    title: str, navigation: Part, *main: Part, live: bool = False, answer: bool = False
) -> str:
    """Return the HTML of a whole page; an `answer` to a form receives no live updates."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{title} · Merkat"),
        element("link", rel="icon", href="/files/merkat.svg", type="image/svg+xml"),
        element("link", rel="stylesheet", href="/files/uPlot.min.css"),
        element("link", rel="stylesheet", href="/files/page.css"),
        [element("script", src=f"/files/{name}", defer=True) for name in _SCRIPTS]
        if live
        else None,
    )
    body = element(
        "body",
        element("a", "To the content", href="#main", class_="skip"),
        navigation,
        element("main", *main, id="main", tabindex="-1"),
        data_live="/live" if live else None,
        data_answer=answer,
    )
    return f"<!doctype html>{element('html', head, body, lang='en')}"


async def page_in_frame(
    request: PageRequest, title: str, *main: Part, status: int = 200
) -> PageResponse:
    """Return a page for a visitor with a session, with navigation and the state of the market."""
    how, plan = request.house.daemon.state(), await request.waiting_plan()
    parts = (_market_line(request, how), _banner(request, how, plan), *main)
    answer = request.asked.method == "POST"
    navigation = _navigation(request, how, plan)
    return page(document(title, navigation, *parts, live=True, answer=answer), status)


async def not_now(request: PageRequest, why: str) -> PageResponse:
    """Return a page that says that the requested page is unavailable now, with the reason."""
    text = f"This page can't be shown now: {why}. It reloads automatically."
    answer = await page_in_frame(
        request, "Not now", element("h1", "Not now"), element("p", text), status=503
    )
    return replace(answer, headers=LOOK_AGAIN)


def form(
    request: PageRequest,
    action: str,
    *parts: Part,
    class_: str | None = None,
    check: str | None = None,
) -> Markup:
    """Return a form with the session's secret, which proves that this site made it.

    While the visitor types, the page's script sends its fields to `check`, and shows the problems.
    """
    secret = element("input", type="hidden", name="form", value=request.form)
    return element(
        "form", secret, *parts, method="post", action=action, class_=class_, data_check=check
    )


def button(request: PageRequest, action: str, words: str, class_: str | None = None) -> Markup:
    """Return a form that consists of a button."""
    return form(
        request, action, element("button", words, type="submit", class_=class_), class_="button"
    )


def careful_button(
    request: PageRequest, action: str, words: str, effect: Part, confirm: str, values: Part = None
) -> Markup:
    """Return an order that needs a confirmation: `words` open its effect and the real button."""
    return element(
        "details",
        element("summary", words, class_="action danger"),
        element("p", effect),
        form(
            request,
            action,
            values,
            element("button", confirm, type="submit", class_="danger"),
            class_="button",
        ),
        class_="careful",
    )


def panel(title: str, *parts: Part, more: Part = None, class_: str = "") -> Markup:
    """Return a section of a page with a heading."""
    # Digits are removed, so that a heading with a count keeps its id.
    name = "part-" + "".join(letter if letter.isalpha() else "-" for letter in title.lower()).strip(
        "-"
    )
    head = element("header", element("h2", title, id=name), more)
    return element("section", head, *parts, class_=f"card {class_}".rstrip(), aria_labelledby=name)


def folded_panel(title: str, *parts: Part) -> Markup:
    """Return a panel that shows its content once it is opened."""
    name = element("h2", title)
    return element("details", element("summary", name), *parts, class_="card folded")


def _navigation(request: PageRequest, how: DaemonState, plan: int | None) -> Markup:
    mine = ("/tenants", "Tenants") if request.admin else (f"/tenants/{request.uid}", "Account")
    places = [*_PLACES[:5], mine, *_PLACES[5:]]
    if request.admin and (how.mode == "ask" or plan is not None):
        places.append(("/plan", "Plan"))
    if request.admin:
        places.append(("/daemon", "Daemon"))
    links = [
        element(
            "li",
            element(
                "a", words, href=path, aria_current="page" if request.asked.path == path else None
            ),
        )
        for path, words in places
    ]
    out = form(
        request,
        "/sign-out",
        element("span", request.name, class_="who"),
        element("button", "Sign out", type="submit"),
        class_="button",
    )
    brand = element("a", "Merkat", href="/", class_="brand")
    # The page's script writes here while the daemon does not answer.
    gone = element("p", id="said", role="status")
    done = element("p", request.said, class_="banner good", role="status", id="done")
    return element(
        "header",
        brand,
        element("nav", element("ul", links), aria_label="Pages"),
        out,
        gone,
        done if request.said else None,
        class_="top",
    )


def _market_line(request: PageRequest, how: DaemonState) -> Markup:
    """Return the state of the market in a line."""
    facts: list[Part] = []
    idle: list[Part] = []
    if request.prepared is not None:
        latest, snapshot = request.prepared.latest, request.now.snapshot
        number = element("a", str(request.period), href=f"/periods/{request.period}")
        facts.append(_fact("Period", number, since(latest.at_s, how.now_s)))
        busy, interval_s = busy_markets(request), request.house.world.rhythm.interval_s
        for market, prices in latest.prices.items():
            named = f" ({market})" if len(latest.prices) > 1 else ""
            shown = facts if market in busy else idle
            shown.append(_fact(f"A core{named}", _priced(prices, "cpu", interval_s), "an hour"))
            shown.append(_fact(f"A GiB{named}", _priced(prices, "memory", interval_s), "an hour"))
        if request.admin:
            facts.append(_fact("Hosts", f"{len(snapshot.hosts):,}", ""))
            facts.append(_fact("VMs", f"{len(snapshot.vms):,}", ""))
    paused = element("span", "Paused", class_="badge warn") if how.paused else None
    facts.append(_fact("Mode", [str(how.mode), " ", paused], ""))
    line = element("dl", facts, class_="strip")
    if not idle:
        return line
    whose = "VMs" if request.admin else "VMs of yours"
    words = f"{count_text(len(idle) // 2, 'market')} without {whose}"
    folded = element("details", element("summary", words), element("dl", idle, class_="strip"))
    return joined([line, folded])


def busy_markets(request: PageRequest) -> AbstractSet[str]:
    """Return the markets in which the visitor sees VMs; all markets if it sees none."""
    snapshot = request.now.snapshot
    names = snapshot.markets.name
    rows = visible_vm_rows(request.caller, request.now)
    seen = np.unique(snapshot.vms.market[rows]).tolist()
    return {names[market] for market in seen} or set(names)


def _priced(prices: Mapping[str, float], resource: str, interval_s: float) -> str:
    price = hourly_price(prices.get(resource), resource, interval_s)
    return "no price" if price is None else credits_text(price)


def _fact(name: str, value: Part, more: str) -> Markup:
    description = element("dd", value, element("small", f" {more}") if more else None)
    return element("div", element("dt", name), description)


def _old_data_warning(request: PageRequest) -> Part:
    """Return a warning if the page shows old data because the database does not answer."""
    reading = request.reading
    if reading.old_s is None and not reading.missing:
        return None
    text: list[Part] = ["The database does not answer. "]
    if reading.old_s is not None:
        text += ["This page is old: it shows the data of ", moment(reading.old_s), "."]
    if reading.missing:
        text.append(" Some data is missing.")
    return element("p", text, class_="banner warn", data_old=True)


def _banner(request: PageRequest, how: DaemonState, plan: int | None) -> Markup:
    banners: list[Part] = [_old_data_warning(request)]
    if how.mode in _DRY:
        banners.append(element("p", _DRY[how.mode], class_="banner"))
    if plan is not None and request.admin:
        link = element("a", f"Plan {plan} waits for your approval", href="/plan")
        banners.append(element("p", link, ".", class_="banner warn"))
    if how.standby is not None:
        banners.append(element("p", f"On standby: {how.standby}", class_="banner warn"))
    if how.clock_ahead_s:
        text = (
            f"The daemon's clock is {duration_text(how.clock_ahead_s)} ahead of the time that is"
            " known to have passed. No deadline takes effect until this time is believed."
        )
        banners.append(element("p", text, class_="banner warn"))
    if request.admin and how.failures:
        text = f"The last {how.failures} periods failed; the log has the reasons."
        banners.append(element("p", text, class_="banner bad"))
    return joined(banners)


SIGN_IN = "/sign-in"


def sign_in_page(
    wrong: str = "", user: str = "", status: HTTPStatus = HTTPStatus.OK, to: str = "/"
) -> PageResponse:
    """Return the page where a visitor signs in, and which then leads to the address `to`."""
    problem = element("p", wrong, class_="wrong", id="wrong", role="alert") if wrong else None
    described = "wrong" if wrong else None
    form = element(
        "form",
        element("h1", "Sign in"),
        element("p", "Use your OpenNebula user name and password.", class_="quiet"),
        problem,
        hidden({"to": to}) if to != "/" else None,
        element("label", "User", for_="user"),
        element(
            "input",
            id="user",
            name="user",
            value=user,
            autocomplete="username",
            autofocus=True,
            required=True,
            aria_describedby=described,
        ),
        element("label", "Password", for_="password"),
        element(
            "input",
            id="password",
            name="password",
            type="password",
            autocomplete="current-password",
            required=True,
            aria_describedby=described,
        ),
        element("button", "Sign in", type="submit", class_="main"),
        method="post",
        action=SIGN_IN,
        class_="card narrow",
    )
    code = HTTPStatus.UNAUTHORIZED if wrong and status is HTTPStatus.FORBIDDEN else status
    return page(document("Sign in", None, form, live=False), code)


def wrong_page(text: str, status: HTTPStatus) -> PageResponse:
    """Return a page with an error message."""
    parts: list[Part] = [
        element("h1", status.phrase),
        element("p", text),
        element("p", element("a", "To the overview", href="/")),
    ]
    return page(
        document(status.phrase, None, element("section", *parts, class_="card narrow")), status
    )
