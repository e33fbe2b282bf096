"""Every form of the web page in a real Chromium: each order is given, and its page confirms it.

The test ends with a comparison: no form that the page has was left out.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.web.chromium import Chromium
from tests.real.web.screens import TENANT
from tests.real.web.sites import Shown, demo
from tests.web.browser import Browser
from tests.web.routes import ROUTES

_PERIOD = 9
_DONE = "document.getElementById('done')?.textContent ?? ''"
_HERE = "location.pathname"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Yield the page of a running demo."""
    with demo(tmp_path_factory.mktemp("demo"), _PERIOD) as running_demo:
        yield running_demo


class Walk:
    """A user's way through the forms; it notes the address of each form that it sends."""

    def __init__(self, chromium: Chromium, shown: Shown) -> None:
        self.chromium, self.shown = chromium, shown
        self.sent: set[str] = set()

    def go(self, path: str) -> None:
        """Open a page."""
        self.chromium.go(f"{self.shown.address}{path}")

    def send(self, selector: str, **fields: str) -> None:
        """Fill the fields of a form, and click the button that the selector names."""
        for name, text in fields.items():
            self.chromium.fill(f"#field-{name}", text)
        button = f"document.querySelector({json.dumps(selector)})"
        address = f"{button}.getAttribute('formaction') ?? {button}.form.action"
        self._note(self.chromium.run(f"new URL({address}, location).pathname"))
        self.chromium.click(selector)

    def order(self, end: str) -> None:
        """Send the form whose address ends so, which needs no field.

        The next period may bring it: a host drains, for example, until a period sees otherwise.
        """
        self.chromium.there(f"form[action$='{end}'] button", f"the form {end}")
        self.send(f"form[action$='{end}'] button")

    def confirm(self, end: str) -> None:
        """Open the order whose address ends so, see its effect, and give it."""
        form = f"form[action$='{end}']"
        self.chromium.there(f"details {form}", f"the form {end}")
        visible = f'document.querySelector("{form} button").checkVisibility()'
        assert not self.chromium.run(visible), end
        self.chromium.run(f'document.querySelector("details:has({form}) summary").click()')
        self.chromium.until(visible, f"the button of {end}")
        self.order(end)

    def done(self, words: str) -> None:
        """Check the sentence about what the last order did."""
        assert words in self.chromium.run(_DONE), self.chromium.run("document.body.innerText")

    def _note(self, path: str) -> None:
        self.sent.add(re.sub(r"/[0-9]+", "/{}", path))

    # -- the parts of the way -----------------------------------------------------------------

    def administrator(self) -> None:
        """Sign in from a page, search and order a list, and give all orders to the daemon."""
        chromium = self.chromium
        chromium.tell("Network.clearBrowserCookies")
        self.go("hosts/0")
        user, _, password = self.shown.admin.partition(":")
        chromium.fill("#user", user)
        chromium.fill("#password", password)
        self.send("form button")
        assert chromium.run(_HERE) == "/hosts/0"
        self.lists()
        self.confirm("/drain")
        self.done("drains")
        self.order("/undrain")
        self.done("is in use again")
        self.go("daemon")
        self.confirm("/pause")
        self.done("The daemon is paused")
        self.order("/resume")
        self.done("The daemon is resumed")
        self.plans()

    def lists(self) -> None:
        """Search, filter and order the list of VMs."""
        chromium = self.chromium
        self.go("vms")
        chromium.run("document.querySelector('form.choice [name=q]').value = 'ana'; 0")
        chromium.click("form.choice button")
        tenants = "[...document.querySelectorAll('td[data-head=Tenant]')].map((e) => e.textContent)"
        assert set(chromium.run(tenants)) == {"ana"}
        heads = "[...document.querySelectorAll('thead a')]"
        chromium.run(f"{heads}.find((link) => link.textContent === 'Pays').id = 'by-pays'; 0")
        chromium.click("#by-pays")
        pays = "[...document.querySelectorAll('td[data-head=Pays]')].map((e) => e.textContent)"
        values = [float(text.replace(",", "")) for text in chromium.run(pays)]
        assert values == sorted(values, reverse=True)
        assert set(chromium.run(tenants)) == {"ana"}
        self.go("hosts/0")

    def plans(self) -> None:
        """Answer two plans; a period may replace a plan before its answer arrives."""
        self.mode("ask")
        self.go("hosts/0")
        self.confirm("/drain")
        for end, words in (("/refuse", "is refused"), ("/approve", "is approved")):
            for _ in range(5):
                self.go("")
                self.chromium.there(".banner.warn a[href='/plan']", "a plan that waits")
                self.go("plan")
                self.chromium.there(f"form[action$='{end}']", "its form")
                if end == "/refuse":
                    self.confirm(end)
                else:
                    self.order(end)
                if self.chromium.run(_DONE):
                    break
            self.done(words)
            self.go("hosts/0")
            self.order("/undrain")
            if end == "/refuse":
                self.go("hosts/0")
                self.confirm("/drain")
        self.mode("on")

    def mode(self, mode: str) -> None:
        """Choose a mode."""
        self.go("daemon")
        self.chromium.run(f"document.querySelector('input[value={mode}]').checked = true; 0")
        self.order("/mode")
        self.done(f"The mode is {mode}")

    def tenant(self) -> None:
        """Bid, state a limit order, and run a platform."""
        self.chromium.sign_in(self.shown.address, TENANT)
        vm = _own_vm(self.shown)
        self.go(f"vms/{vm}")
        self.send("form[action$='/quote'] button", cpu="9.5")
        self.order("/bid")
        self.done("bids 9.5 credits")
        self.go("limit-orders")
        self.send("form[action='/limit-orders/quote'] button", vms=str(vm), limit="50")
        self.order("/state")
        self.done("The limit order is stated")
        self.chromium.run(
            "document.querySelector('tbody a[href^=\"/limit-orders/\"]').id = 'one'; 0"
        )
        self.chromium.click("#one")
        self.send("form[action$='/quote'] button", limit="60")
        self.order("/change")
        self.done("is changed")
        self.confirm("/withdraw")
        self.done("is withdrawn")
        self.platform()

    def platform(self) -> None:
        """Fill the form of a platform with checks while typing, and give all orders to it."""
        chromium = self.chromium
        self.go("platforms/new")
        self.type("name", "two words")
        self.type("credits", "much")
        chromium.there("#wrong-name", "a problem while typing")
        chromium.there("#wrong-credits", "all problems at once")
        self.sent.add("/platforms/check")
        self.type("name", "walked")
        chromium.until("!document.querySelector('#wrong-name')", "no problem with the name")
        assert chromium.run("Boolean(document.querySelector('#wrong-credits'))")
        self.type("credits", "5000")
        chromium.until("!document.querySelector('.wrong')", "no problem")
        self.send("button[name=to]")
        assert 'name = "walked"' in chromium.run("document.querySelector('textarea').value")
        self.send("button[name=to]")
        self.send("form[action='/platforms/quote'] button.main")
        self.send("button[name=to]")
        assert chromium.run("document.querySelector('#field-name').value") == "walked"
        self.send("form[action='/platforms/quote'] button.main")
        self.order("/submit")
        self.done("Platform walked is submitted.")
        self.send("form[action$='/quote'] button", budget="6000", deadline="3h")
        self.order("/change")
        self.done("Changed: deadline and budget of walked.")
        self.order("/suspend")
        self.done("Platform walked is suspended.")
        self.order("/resume")
        self.done("Platform walked is resumed.")
        self.confirm("/stop")
        self.done("Platform walked stops.")
        self.order("/sign-out")
        assert chromium.run(_HERE) == "/sign-in"

    def type(self, name: str, text: str) -> None:
        """Replace the text of a field by typing."""
        self.chromium.run(f"document.querySelector('#field-{name}').select(); 0")
        self.chromium.run(f"document.querySelector('#field-{name}').focus(); 0")
        self.chromium.type(text)


def _own_vm(shown: Shown) -> int:
    """Return a running VM of the tenant that is of no platform."""
    browser = Browser(shown.address)
    browser.sign_in(TENANT)
    vms = [vm for host in browser.get("/").hosts for vm in host["vms"]]
    return next(int(vm) for vm, name, *_ in vms if not name.startswith("weather-"))


def test_each_form_works_in_a_browser(shown: Shown, tmp_path: Path) -> None:
    """Every form of the page is sent, and no script fails on the way."""
    with Chromium(tmp_path / "profile") as chromium:
        chromium.size(1280, 900)
        walk = Walk(chromium, shown)
        walk.administrator()
        walk.tenant()
        errors = [line for line in chromium.errors if "responded with a status" not in line]
    assert errors == []
    forms = {route.path for route in ROUTES if route.method == "POST"}
    assert forms | {"/sign-in", "/sign-out"} == walk.sent
