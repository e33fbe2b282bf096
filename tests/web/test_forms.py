"""Forms of tenants and administrators: quotes first, and errors beside their fields."""

import re
from html import unescape

import pytest

from merkatd.base.quantities import credits_text
from tests.api.xmlrpc.site import ANN, BOB, until
from tests.web.browser import Browser
from tests.web.site import ANNS, PageSite

_GOOD = """name = "bobs-work"
[controller]
kind = "none"
[budget]
credits = {credits}
[[cluster]]
name = "nodes"
least = 1
initial = 1
template = '''CPU="1"
MEMORY="128"
'''
"""


def bids(site: PageSite) -> list[float]:
    """Return the VM's bids, which stay the same while its shares change."""
    return [resource["old"] for resource in site.order("bid", vm="1")["resources"]]


class TestBids:
    def test_a_bid_is_quoted_and_then_set(self, site: PageSite) -> None:
        """The quote changes nothing, and the bid applies from the next period on."""
        bob = site.browser(BOB)
        quote = bob.post("/vms/1/quote", cpu="7.5", memory="")
        assert quote.status == 200
        assert "7.5" in quote.text
        assert site.order("bid", vm="1")["resources"][0]["old"] == 6
        assert bob.post("/vms/1/bid", cpu="7.5").place == "/vms/1"
        assert site.order("bid", vm="1")["resources"][0]["old"] == 7.5

    @pytest.mark.parametrize("wrong", ["much", "-1", "nan", "inf", "1e400", "1e308", "9" * 99])
    def test_invalid_input_is_reported_beside_its_field(self, site: PageSite, wrong: str) -> None:
        """The field keeps the input, and nothing changes."""
        bob = site.browser(BOB)
        before = bids(site)
        for end in ("quote", "bid"):
            answer = bob.post(f"/vms/1/{end}", cpu=wrong)
            assert answer.status == 422
            assert 'aria-invalid="true"' in answer.text
            assert f'value="{wrong}"' in answer.text
            assert 'role="alert"' in answer.text
        assert bids(site) == before

    def test_the_form_shows_no_default_as_a_bid(self, site: PageSite) -> None:
        """The default may be lowered for lack of credits, and the form would store that."""
        page = site.browser(ANN).get(f"/vms/{site.vm}").text
        for good in ("cpu", "memory"):
            shown = re.search(f'<input id="field-{good}"[^>]*>', page)
            assert shown is not None
            assert 'value=""' in shown[0]
        assert "If empty, the default applies, now" in page

    def test_the_form_shows_a_bid_with_all_its_digits(self, site: PageSite) -> None:
        """A form that is sent to change one bid leaves the others as they are."""
        bob = site.browser(BOB)
        bob.post("/vms/1/bid", cpu="7.123456789")
        assert 'name="cpu" value="7.123456789"' in bob.get("/vms/1").text
        bob.post("/vms/1/bid", cpu="7.5")

    def test_an_empty_bid_is_an_error(self, site: PageSite) -> None:
        """The message names the required fields."""
        assert "at least one" in site.browser(BOB).post("/vms/1/quote", cpu="").text


class TestPlatforms:
    def test_a_platform_is_quoted_and_then_submitted(self, site: PageSite) -> None:
        """The quote creates no platform and takes no credits."""
        bob = site.browser(BOB)
        text = _GOOD.format(credits=50)
        listed = site.order("platforms", tenant="bob")
        quote = bob.post("/platforms/quote", template=text)
        assert quote.status == 200
        assert "a period at present prices" in quote.text
        assert site.order("platforms", tenant="bob") == listed == []
        hidden = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', quote.text)
        confirmed = {name: unescape(value) for name, value in hidden} | {"template": text}
        del confirmed["form"]
        place = bob.post("/platforms/submit", **confirmed).place
        assert bob.post("/platforms/submit", **confirmed).place == place, "after a double click"
        number = int(place.removeprefix("/platforms/"))
        assert site.order("platform", platform=number)["budget"] == 50
        assert bob.post(f"{place}/quote", budget="80").status == 200
        assert site.order("platform", platform=number)["budget"] == 50
        assert bob.post(f"{place}/change", budget="80", deadline="3h").place == place
        changed = site.order("platform", platform=number)
        assert changed["budget"] == 80
        assert changed["deadline_s"] is not None
        assert bob.post(f"{place}/stop").place == place
        until(
            lambda: site.order("platform", platform=number)["state"] in {"cancelled", "done"},
            "the platform stopped",
        )
        assert bob.post(f"{place}/stop").status == 422

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("", "the text of a template"),
            ("name = ", "invalid TOML"),
            ('name = "x"', "controller"),
            (_GOOD.format(credits=1e9), "credits"),
            ("<script>" * 100, "invalid TOML"),
        ],
    )
    def test_an_invalid_template_is_reported(self, site: PageSite, text: str, why: str) -> None:
        """Quote and submission show the error in the form with the text."""
        bob = site.browser(BOB)
        for end in ("quote", "submit"):
            answer = bob.post(f"/platforms/{end}", template=text)
            assert answer.status == 422
            assert why in answer.text
            assert "<script>" not in answer.text

    @pytest.mark.parametrize(
        ("name", "value"),
        [("deadline", "soon"), ("budget", "-3"), ("budget", "1e11"), ("replenishment", "x")],
    )
    def test_an_invalid_change_is_reported(self, site: PageSite, name: str, value: str) -> None:
        """The error is beside its field."""
        ann = site.browser(ANN)
        for end in ("quote", "change"):
            answer = ann.post(f"/platforms/{site.platform}/{end}", **{name: value})
            assert answer.status == 422
            assert f'id="wrong-{name}"' in answer.text
        assert ANNS in answer.text


class TestOrders:
    def test_an_administrator_gives_orders(self, site: PageSite) -> None:
        """Each order can be revoked by another one."""
        admin = site.browser(site.admin)
        assert admin.post("/daemon/pause").place == "/daemon"
        assert site.order("status")["paused"] is True
        assert "Paused" in admin.get("/").text
        assert admin.post("/daemon/resume").place == "/daemon"
        assert admin.post("/hosts/0/drain").place == "/hosts/0"
        assert site.order("status")["drained_hosts"] == [0]
        assert admin.post("/hosts/0/undrain").place == "/hosts/0"
        assert admin.post("/daemon/mode", mode="dry").place == "/daemon"
        assert "it carries out nothing" in admin.get("/").text
        assert admin.post("/daemon/mode", mode="some").status == 422
        assert admin.post("/daemon/mode", mode="on").place == "/daemon"

    def test_a_plan_waits_for_approval(self, site: PageSite) -> None:
        """Ticked steps are left out, and an outdated plan cannot be approved."""
        admin = site.browser(site.admin)
        set_mode_ask(site, admin)
        try:
            template = 'CPU="1"\nMEMORY="64"\nNAME="waits"'
            site.opennebula(BOB, "one.vm.allocate", template, False)
            until(lambda: site.order("mode")["waiting_plan"] is not None, "a plan")
            plan = str(site.order("mode")["waiting_plan"])
            assert "waits for your approval" in admin.get("/").text
            page = admin.get("/plan").text
            assert 'name="skip"' in page
            assert all(head in page for head in (">Gain<", ">Cost<"))
            (step,) = site.order("standing_plan")["steps"]
            assert step["cost"] > 0
            assert f">{credits_text(step['cost'])}<" in page
            assert admin.post("/plan/approve", plan="99999").status == 422
            assert admin.post("/plan/approve", plan="x").status == 422
            assert admin.post("/plan/approve", plan=plan, skip="99").status == 422
            assert admin.post("/plan/approve", plan=plan, skip="1").place == "/plan"
            assert "skipped" in admin.get("/plan").text
        finally:
            site.as_before()

    def test_a_refused_plan_is_not_executed(self, site: PageSite) -> None:
        """Two periods later the VM is still pending."""
        admin = site.browser(site.admin)
        set_mode_ask(site, admin)
        try:
            template = 'CPU="1"\nMEMORY="64"\nNAME="refused"'
            vm = int(site.opennebula(BOB, "one.vm.allocate", template, False))
            until(lambda: _waits_for(site, vm), "a plan with the new VM")
            plan = str(site.order("mode")["waiting_plan"])
            assert admin.post("/plan/refuse", plan=plan).place == "/plan"
            assert "Refused" in admin.get("/plan").text
            wait_for_periods(site, 2)
            assert {row["id"]: row["state"] for row in site.order("vms")}[vm] == "PENDING"
        finally:
            site.as_before()


def set_mode_ask(site: PageSite, admin: Browser) -> None:
    """Set the mode `ask`, and wait until the present period has ended."""
    assert admin.post("/daemon/mode", mode="ask").place == "/daemon"
    wait_for_periods(site, 2)


def wait_for_periods(site: PageSite, count: int) -> None:
    """Wait until this number of further periods has been announced."""
    before = site.period()
    assert before is not None
    until(lambda: (site.period() or 0) >= before + count, f"{count} more periods")


def _waits_for(site: PageSite, vm: int) -> bool:
    if site.order("mode")["waiting_plan"] is None:
        return False
    return any(step["vm"] == vm for step in site.order("standing_plan")["steps"])
