"""What is around every page: head, navigation, and how the daemon is."""

from dataclasses import replace
from math import isfinite
from typing import Any

from merkatd.web.answers import LOOK_AGAIN, Answer, page
from merkatd.web.markup import Markup, Part, h, joined
from merkatd.web.pages.parts import credits_, moment, since
from merkatd.web.routes import Here

_PLACES = (
    ("/", "Overview"),
    ("/hosts", "Hosts"),
    ("/vms", "VMs"),
    ("/platforms", "Platforms"),
    ("/prices", "Prices"),
    ("/decisions", "Decisions"),
)
_SCRIPTS = ("uPlot.iife.min.js", "hosts.js", "charts.js", "live.js")
_DRY = {
    "dry": "Dry: nothing of this is done.",
    "shadow": "Shadow: nothing of this is done; what another scheduler does is compared.",
    "ask": "Plans wait for approval.",
}


def document(title: str, navigation: Part, *main: Part, live: bool = False) -> str:
    """A whole page."""
    head = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("meta", name="color-scheme", content="light dark"),
        h("title", f"{title} · Merkat"),
        h("link", rel="icon", href="/files/merkat.svg", type="image/svg+xml"),
        h("link", rel="stylesheet", href="/files/uPlot.min.css"),
        h("link", rel="stylesheet", href="/files/page.css"),
        [h("script", src=f"/files/{name}", defer=True) for name in _SCRIPTS] if live else None,
    )
    body = h(
        "body",
        h("a", "To the content", href="#main", class_="skip"),
        navigation,
        h("main", *main, id="main", tabindex="-1"),
        h("p", id="said", role="status") if live else None,
        data_live="/live" if live else None,
    )
    return f"<!doctype html>{h('html', head, body, lang='en')}"


async def framed(here: Here, title: str, *main: Part, status: int = 200) -> Answer:
    """A page of who is signed in."""
    how = await here.status()
    parts = (_strip(here, how), _banner(here, how), *main)
    return page(document(title, _navigation(here, how), *parts, live=True), status)


async def not_now(here: Here, why: str) -> Answer:
    """Return the frame around a sentence: what is asked for can't be shown at present."""
    text = f"This page can't be shown now: {why}. It is tried again by itself."
    answer = await framed(here, "Not now", h("h1", "Not now"), h("p", text), status=503)
    return replace(answer, headers=LOOK_AGAIN)


def form(here: Here, action: str, *parts: Part, class_: str | None = None) -> Markup:
    """A form that proves where it comes from."""
    secret = h("input", type="hidden", name="form", value=here.form)
    return h("form", secret, *parts, method="post", action=action, class_=class_)


def button(here: Here, action: str, words: str, class_: str | None = None) -> Markup:
    """A form that is one button."""
    return form(here, action, h("button", words, type="submit", class_=class_), class_="button")


def panel(title: str, *parts: Part, more: Part = None, class_: str = "") -> Markup:
    """A part of a page with a heading of its own."""
    # Without the numbers in it: a part that counts something stays the same part.
    name = "part-" + "".join(one if one.isalpha() else "-" for one in title.lower()).strip("-")
    head = h("header", h("h2", title, id=name), more)
    return h("section", head, *parts, class_=f"card {class_}".rstrip(), aria_labelledby=name)


def _navigation(here: Here, how: dict[str, Any]) -> Markup:
    mine = ("/tenants", "Tenants") if here.admin else (f"/tenants/{here.uid}", "Account")
    places = [*_PLACES[:4], mine, *_PLACES[4:]]
    if here.admin and (how["mode"] == "ask" or how["waiting_plan"] is not None):
        places.append(("/plan", "Plan"))
    if here.admin:
        places.append(("/orders", "Orders"))
    links = [
        h(
            "li",
            h("a", words, href=path, aria_current="page" if here.asked.path == path else None),
        )
        for path, words in places
    ]
    out = form(
        here,
        "/sign-out",
        h("span", here.name, class_="who"),
        h("button", "Sign out", type="submit"),
        class_="button",
    )
    brand = h("a", "Merkat", href="/", class_="brand")
    return h("header", brand, h("nav", h("ul", links), aria_label="Pages"), out, class_="top")


def _strip(here: Here, how: dict[str, Any]) -> Markup:
    """The state of the market in one line."""
    facts: list[Part] = []
    if here.prepared is not None:
        latest, snapshot = here.prepared.latest, here.now.snapshot
        number = h("a", str(here.period), href=f"/periods/{here.period}")
        facts.append(_fact("Period", number, since(latest.at_s, how["now_s"])))
        for market, prices in latest.prices.items():
            named = f" ({market})" if len(latest.prices) > 1 else ""
            facts.append(_fact(f"A core{named}", _priced(prices.get("cpu"), 100), "a period"))
            facts.append(_fact(f"A GiB{named}", _priced(prices.get("memory"), 1024), "a period"))
        if here.admin:
            facts.append(_fact("Hosts", f"{len(snapshot.hosts):,}", ""))
            facts.append(_fact("VMs", f"{len(snapshot.vms):,}", ""))
    paused = h("span", "Paused", class_="badge warn") if how["paused"] else None
    facts.append(_fact("Mode", [str(how["mode"]), " ", paused], ""))
    return h("dl", facts, class_="strip")


def _priced(price: float | None, times: float) -> str:
    return "no price" if price is None or not isfinite(price) else credits_(price * times)


def _fact(name: str, value: Part, more: str) -> Markup:
    said = h("dd", value, h("small", f" {more}") if more else None)
    return h("div", h("dt", name), said)


def _old(here: Here) -> Part:
    """Return what is said of a page that shows what the database said before."""
    reading = here.reading
    if reading.old_s is None and not reading.missing:
        return None
    text: list[Part] = ["The database does not answer. "]
    if reading.old_s is not None:
        text += ["This page is old: it shows what was stored at ", moment(reading.old_s), " UTC."]
    if reading.missing:
        text.append(" Some of it is missing.")
    return h("p", text, class_="banner warn", data_old=True)


def _banner(here: Here, how: dict[str, Any]) -> Markup:
    said: list[Part] = [_old(here)]
    if how["mode"] in _DRY:
        said.append(h("p", _DRY[how["mode"]], class_="banner"))
    if how["waiting_plan"] is not None and here.admin:
        link = h("a", f"Plan {how['waiting_plan']} waits for your approval", href="/plan")
        said.append(h("p", link, ".", class_="banner warn"))
    if how["standby"] is not None:
        said.append(h("p", f"Standing by: {how['standby']}", class_="banner warn"))
    if here.admin and how["failures"]:
        text = f"The last {how['failures']} periods failed; the log says why."
        said.append(h("p", text, class_="banner bad"))
    return joined(said)
