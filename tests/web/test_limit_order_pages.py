"""The pages of limit orders: quotes first, own orders, the book without names, and rights."""

import re
from collections.abc import Iterator
from html import unescape

import pytest

from tests.api.xmlrpc.site import ANN, BOB, until
from tests.web.browser import Browser
from tests.web.site import ANNS, PageSite


@pytest.fixture
def empty(site: PageSite) -> Iterator[PageSite]:
    """Yield the site without limit orders, and delete those of the test."""

    def delete() -> None:
        for order in site.order("limit_orders"):
            site.order("limit_order_delete", order=order["id"])

    delete()
    yield site
    delete()


def hidden(text: str) -> dict[str, str]:
    """Return the hidden fields of a quote's form, without the session's secret."""
    pairs = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', text)
    return {name: unescape(value) for name, value in pairs if name != "form"}


def state(browser: Browser, vms: str, limit: str, **more: str) -> str:
    """Quote and state an order, and return the address that the page leads to."""
    quote = browser.post("/limit-orders/quote", vms=vms, limit=limit, **more)
    assert quote.status == 200, quote.text
    return browser.post("/limit-orders/state", **hidden(quote.text)).place


class TestOwnOrders:
    def test_an_order_is_quoted_stated_changed_and_withdrawn(self, empty: PageSite) -> None:
        """The quote changes nothing; each change applies once it is confirmed."""
        ann = empty.browser(ANN)
        assert "There are no limit orders." in ann.get("/limit-orders").text
        given = {"least_run_min": "10", "factor": "2", "work_h": "1", "within_h": "4"}
        quote = ann.post("/limit-orders/quote", vms=f"{ANNS}-vm", limit="5000", **given)
        assert quote.status == 200
        assert "credits a period would start these" in quote.text
        assert "Too little is known: the recorded past covers" in quote.text
        assert empty.order("limit_orders") == []
        fields = hidden(quote.text)
        assert ann.post("/limit-orders/state", **fields).place == "/limit-orders"
        assert ann.post("/limit-orders/state", **fields).place == "/limit-orders", "double click"
        (order,) = empty.order("limit_orders")
        assert (order["vms"], order["limit"]) == ([empty.vm], 5_000)
        assert (order["least_run_s"], order["factor"]) == (600, 2)
        at = f"/limit-orders/{order['id']}"
        page = ann.get(at).text
        assert "for 10 min after each start at most 10,000" in page
        assert ann.post(f"{at}/quote", limit="6000").status == 200
        assert empty.order("limit_orders")[0]["limit"] == 5_000
        assert ann.post(f"{at}/change", limit="6000", factor="1").place == at
        (order,) = empty.order("limit_orders")
        assert (order["limit"], order["factor"], order["least_run_s"]) == (6_000, 1, 600)
        assert ann.post(f"{at}/withdraw").place == "/limit-orders"
        assert empty.order("limit_orders") == []
        assert ann.get(at).status == 404

    def test_the_form_shows_all_digits_of_the_terms(self, empty: PageSite) -> None:
        """A form that is sent to change one term leaves the others as they are."""
        ann = empty.browser(ANN)
        state(ann, str(empty.vm), "1234567.25", least_run_min="12.3456789", factor="2")
        (order,) = empty.order("limit_orders")
        at = f"/limit-orders/{order['id']}"
        inputs = re.findall(r'name="([a-z_]*)" value="([0-9.]+)"', ann.get(at).text)
        fields = {name: text for name, text in inputs if name != "form"}
        assert ann.post(f"{at}/change", **fields | {"factor": "3"}).place == at
        (changed,) = empty.order("limit_orders")
        assert (changed["limit"], changed["factor"]) == (1_234_567.25, 3)
        assert changed["least_run_s"] == pytest.approx(order["least_run_s"], rel=1e-12)

    def test_a_running_order_shows_its_cost(self, empty: PageSite) -> None:
        """The list and its page say that it runs, and what it pays."""
        ann = empty.browser(ANN)
        state(ann, str(empty.vm), "5000")
        until(lambda: empty.order("limit_orders")[0]["runs"], "the order runs")
        (order,) = empty.order("limit_orders")
        assert '<span class="badge">runs</span>' in ann.get("/limit-orders").text
        assert "Its VMs run, and cost" in ann.get(f"/limit-orders/{order['id']}").text
        assert ann.get(f"/limit-orders/{order['id'] + 1}").status == 404

    @pytest.mark.parametrize(
        ("field", "given", "text"),
        [
            ("vms", {"vms": "", "limit": "1"}, "Enter the ids or the names"),
            ("vms", {"vms": "web-99", "limit": "1"}, "No VM of yours has the name"),
            ("vms", {"vms": "1", "limit": "1"}, "Not authorized"),
            ("vms", {"vms": "0 0", "limit": "1"}, "must name each VM once"),
            ("vms", {"vms": "99999", "limit": "1"}, "Error getting virtual machine"),
            ("limit", {"vms": "0", "limit": ""}, "Enter the most credits"),
            ("limit", {"vms": "0", "limit": "-1"}, "Must be a number of at least 0"),
            ("limit", {"vms": "0", "limit": "nan"}, "Must be a number of at least 0"),
            ("factor", {"vms": "0", "limit": "1", "factor": "x"}, "Must be a number"),
            ("within_h", {"vms": "0", "limit": "1", "work_h": "2"}, "must be a number above 0"),
        ],
    )
    def test_a_wrong_field_is_named(
        self, empty: PageSite, field: str, given: dict[str, str], text: str
    ) -> None:
        """The error is beside its field, which keeps its input, and nothing is stored."""
        answer = empty.browser(ANN).post("/limit-orders/quote", **given)
        assert answer.status == 422
        assert f'id="wrong-{field}"' in answer.text
        assert text in unescape(answer.text)
        assert empty.order("limit_orders") == []

    def test_terms_beyond_the_bounds_are_refused(self, empty: PageSite) -> None:
        """The service checks what the quote did not need."""
        ann = empty.browser(ANN)
        answer = ann.post("/limit-orders/state", vms="0", limit="1", factor="1000")
        assert answer.status == 422
        assert 'id="wrong-factor"' in answer.text
        answer = ann.post("/limit-orders/state", vms="0", limit="1", least_run_min="1e9")
        assert 'id="wrong-least_run_min"' in answer.text


class TestOthers:
    def test_the_book_has_no_names(self, empty: PageSite) -> None:
        """Bob sees the limit and the size of Ann's order, and nothing of her."""
        state(empty.browser(ANN), str(empty.vm), "4321")
        text = empty.browser(BOB).get("/limit-orders").text
        assert "4,321" in text
        assert ANNS not in text
        assert f"/vms/{empty.vm}" not in text
        assert "0 limit orders" in text

    def test_orders_of_others_do_not_exist(self, empty: PageSite) -> None:
        """Neither their page nor a form finds them; an administrator can do all of it."""
        state(empty.browser(ANN), str(empty.vm), "4321")
        (order,) = empty.order("limit_orders")
        at, bob = f"/limit-orders/{order['id']}", empty.browser(BOB)
        assert bob.get(at).status == 404
        for end in ("quote", "change", "withdraw"):
            assert bob.post(f"{at}/{end}", limit="9").status == 404
        assert (
            empty.order("limit_orders") == [order]
            or empty.order("limit_orders")[0]["limit"] == 4321
        )
        admin = empty.browser(empty.admin)
        assert ">ann</a>" in admin.get("/limit-orders").text
        assert admin.post(f"{at}/change", limit="99").place == at
        assert admin.post(f"{at}/withdraw").place == "/limit-orders"
        assert empty.order("limit_orders") == []

    def test_a_form_needs_the_sessions_secret(self, empty: PageSite) -> None:
        """Another site's form does nothing."""
        ann = empty.browser(ANN)
        fields = {"vms": "0", "limit": "1", "form": "0" * 64}
        answer = ann.ask("POST", "/limit-orders/state", fields)
        assert answer.status >= 400
        assert empty.order("limit_orders") == []
