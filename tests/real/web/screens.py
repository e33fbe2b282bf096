"""Every screen of the web page: its user, its address, and the actions that lead to it."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.real.web.chromium import Chromium
from tests.real.web.sites import Shown

WIDTHS = ((1280, 900, False), (800, 900, False), (375, 812, True))
"""By width: the height, and whether it is a phone."""
TENANT = "ana:demo"
_FORM = "form:not(.button) button"
_DRAWN = """
[...document.querySelectorAll('[data-hosts]')].every((box) => box.querySelector('.vmbar'))
&& [...document.querySelectorAll('[data-charts]')].every((box) =>
  box.classList.contains('nothing') || [...box.querySelectorAll('canvas')].some((canvas) =>
    canvas.width && new Uint32Array(canvas.getContext('2d').getImageData(
      0, 0, canvas.width, canvas.height).data.buffer).some((pixel) => pixel)))
&& document.querySelectorAll('[data-charts].nothing').length === 0
"""
"""Whether all charts exist and none of them is blank."""

Act = Callable[[Chromium, Shown], None]


@dataclass(frozen=True)
class Screen:
    """A screen of the web page."""

    name: str
    path: str
    """The address, with {vm}, {tenant} and {platform} in place of ids."""
    then: Act | None = None
    """The actions that show the screen."""
    after: Act | None = None
    """The actions that undo them."""
    login: str | None = ""
    """The login of the user: empty for the administrator, None for no user."""


def _quote_bid(chromium: Chromium, _: Shown) -> None:
    chromium.fill("#field-cpu", "9.5")
    chromium.click(_FORM)


def _wrong_bid(chromium: Chromium, _: Shown) -> None:
    chromium.fill("#field-cpu", "a lot")
    chromium.click(_FORM)


def _open_order(chromium: Chromium, _: Shown) -> None:
    link = "document.querySelector(\"main a[href^='/limit-orders/']\")"
    chromium.go(chromium.until(f"{link}?.href", "a limit order"))


def _quote_platform(chromium: Chromium, _: Shown) -> None:
    chromium.click(_FORM)


def _wrong_template(chromium: Chromium, _: Shown) -> None:
    chromium.fill("#field-template", 'name = "weather"\n[controller]\nkind = "sunshine"\n')
    chromium.click(_FORM)


def _wrong_platform(chromium: Chromium, _: Shown) -> None:
    chromium.fill("#field-name", "two words")
    chromium.fill("#field-credits", "much")
    chromium.click(_FORM)


def _quote_change(chromium: Chromium, _: Shown) -> None:
    chromium.fill("#field-deadline", "3h")
    chromium.fill("#field-budget", "6000")
    chromium.click(_FORM)


def _sign_in_wrongly(chromium: Chromium, _: Shown) -> None:
    chromium.fill("#user", "ana")
    chromium.fill("#password", "guess")
    chromium.click("form button")


def choose_mode(chromium: Chromium, shown: Shown, mode: str) -> None:
    """Set the mode of the daemon; as an administrator."""
    chromium.go(f"{shown.address}daemon")
    chromium.run(f"document.querySelector('input[value={mode}]').checked = true")
    chromium.click(_FORM)


def _await_plan(chromium: Chromium, shown: Shown) -> None:
    choose_mode(chromium, shown, "ask")
    drain_a_host(chromium, shown)
    chromium.there(".banner.warn a", "a plan that waits")
    chromium.go(f"{shown.address}plan")
    chromium.there("input[name=skip]", "its steps")


def drain_a_host(chromium: Chromium, shown: Shown) -> None:
    """Drain the first host with a VM, so that a VM must migrate; as an administrator."""
    chromium.go(shown.address)
    chromium.there(".vmbar", "bars")
    chromium.go(chromium.run("document.querySelector('.hostrow:has(.vmbar) .hostname').href"))
    confirm(chromium, "/drain")


def confirm(chromium: Chromium, end: str) -> None:
    """Open the order whose address ends so, check that its effect is shown, and give it."""
    form = f"form[action$='{end}']"
    chromium.there(f"details {form}", f"the form {end}")
    shown = f'document.querySelector("{form} button").checkVisibility()'
    assert not chromium.run(shown), end
    chromium.run(f'document.querySelector("details:has({form}) summary").click()')
    chromium.until(shown, f"the button of {end}")
    chromium.click(f"{form} button")


def _go_on(chromium: Chromium, shown: Shown) -> None:
    use_all_hosts(chromium, shown)
    choose_mode(chromium, shown, "on")


def use_all_hosts(chromium: Chromium, shown: Shown) -> None:
    """Use all drained hosts again; as an administrator."""
    chromium.go(f"{shown.address}hosts")
    drained = "[...document.querySelectorAll('tr:has(.badge.warn) a')].map((link) => link.href)"
    for address in chromium.run(drained):
        chromium.go(address)
        chromium.click("main form.button button")


SCREENS = (
    # First, while the platform still runs.
    Screen("change-quote", "platforms/{platform}", _quote_change, login=TENANT),
    Screen("sign-in", "sign-in", login=None),
    Screen("sign-in-wrong", "sign-in", _sign_in_wrongly, login=None),
    Screen("overview", ""),
    Screen("hosts", "hosts"),
    Screen("host", "hosts/0"),
    Screen("vms", "vms"),
    Screen("vm", "vms/{vm}"),
    Screen("platforms", "platforms"),
    Screen("platform", "platforms/{platform}"),
    Screen("tenants", "tenants"),
    Screen("tenant", "tenants/{tenant}"),
    Screen("prices", "prices"),
    Screen("decisions", "decisions"),
    Screen("period", "periods/3"),
    Screen("daemon", "daemon"),
    Screen("nothing", "nowhere"),
    Screen("own-overview", "", login=TENANT),
    Screen("bid-quote", "vms/{vm}", _quote_bid, login=TENANT),
    Screen("bid-wrong", "vms/{vm}", _wrong_bid, login=TENANT),
    Screen("new-platform", "platforms/new", login=TENANT),
    Screen("new-platform-quote", "platforms/new", _quote_platform, login=TENANT),
    Screen("new-platform-wrong", "platforms/new", _wrong_platform, login=TENANT),
    Screen("new-template", "platforms/new?view=toml", login=TENANT),
    Screen("new-template-wrong", "platforms/new?view=toml", _wrong_template, login=TENANT),
    Screen("limit-orders", "limit-orders", login=TENANT),
    Screen("limit-order", "limit-orders", _open_order),
    Screen("strategies", "strategies"),
    Screen("vms-sorted", "vms?q=a&sort=-pays"),
    Screen("prices-day", "prices?range=day"),
    Screen("plan", "plan", _await_plan, _go_on),
)


def open_screen(chromium: Chromium, shown: Shown, screen: Screen) -> None:
    """Open a screen as a user would, and wait until all its charts are drawn."""
    if screen.login is None:
        chromium.tell("Network.clearBrowserCookies")
    else:
        chromium.sign_in(shown.address, screen.login or shown.admin)
    ids = {"vm": shown.vm, "tenant": shown.tenant, "platform": shown.platform}
    chromium.go(f"{shown.address}{screen.path.format(**ids)}")
    if screen.then is not None:
        screen.then(chromium, shown)
    chromium.until(_DRAWN, f"{screen.name}: charts")


def leave_screen(chromium: Chromium, shown: Shown, screen: Screen) -> None:
    """Undo the changes that the screen needed."""
    if screen.after is not None:
        screen.after(chromium, shown)
