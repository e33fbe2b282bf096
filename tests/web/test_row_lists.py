"""Lists are searched, filtered and ordered by the daemon, by the query of their address."""

import re
from math import isnan
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.web.base.form_reader import Form
from merkatd.web.layout.html import joined
from merkatd.web.layout.row_lists import (
    RowChoice,
    RowFields,
    choice_of,
    chosen,
    chosen_rows,
    head_links,
)
from merkatd.web.layout.widgets import table
from merkatd.web.pages.row_tables import vm_fields
from tests.web.presents import view_of
from tests.web.site import PageSite
from tests.web.test_many_vms import asked

FIELDS: RowFields[tuple[str, float | None]] = RowFields(
    text=lambda row: row[0],
    orders={"Name": lambda row: row[0], "Pays in all": lambda row: row[1]},
    numbers=("Pays in all",),
    filters={"kind": lambda row: row[0][:1]},
)
ROWS = st.lists(st.tuples(st.text("abC ", max_size=4), st.none() | st.floats(allow_infinity=False)))


def address_of(choice: RowChoice) -> RowChoice:
    """Return the choice that a request for its address has."""
    there = urlsplit(choice.address())
    query = Form(there.query.encode())
    request: Any = SimpleNamespace(query=query)
    return choice_of(FIELDS, request, there.path)


@given(ROWS, st.text("abc ", max_size=3), st.sampled_from(["", "a", "C"]), st.booleans())
def test_a_choice_leaves_out_and_orders_rows(
    rows: list[tuple[str, float | None]], search: str, kind: str, down: bool
) -> None:
    """Each row with all words and the filter's value is there once; unknown values are last."""
    filters = {"kind": kind} if kind else {}
    found = chosen(FIELDS, rows, RowChoice("/x", search, filters, "Pays in all", down))
    words = search.split()
    expected = [
        row for row in rows
        if all(word in row[0].casefold() for word in words) and (not kind or row[0][:1] == kind)
    ]  # fmt: skip
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
    values = [value for _, value in found]
    known = [value for value in values if value is not None and not isnan(value)]
    assert values[: len(known)] == sorted(known, reverse=down)


@given(
    st.text(max_size=20).map(lambda text: " ".join(text.split())),
    st.sampled_from(["", "Name", "Pays in all"]),
    st.booleans(),
    st.text(min_size=1, max_size=9),
)
def test_an_address_has_the_whole_choice(search: str, head: str, down: bool, kind: str) -> None:
    """The page of a link shows what the link promises, whatever the texts."""
    try:
        (search + kind).encode()
    except UnicodeEncodeError:
        return
    choice = RowChoice("/x", search, {"kind": kind}, head, bool(head) and down)
    assert address_of(choice) == choice


@pytest.mark.parametrize("sort", ["", "x", "--name", "-", "in-all", "name " * 99])
def test_an_unknown_order_is_the_usual_order(sort: str) -> None:
    """So is an unknown filter."""
    choice = choice_of(FIELDS, asked("/x", sort=sort, odd="7"), "/x")
    assert chosen(FIELDS, [("b", 1.0), ("a", None)], choice) == [("b", 1.0), ("a", None)]


def test_a_columns_link_turns_its_order() -> None:
    """Numbers begin with the highest, texts with the first; the head says the present order."""
    links = head_links(FIELDS, choice_of(FIELDS, asked("/x", sort="-pays-in-all", q="a"), "/x"))
    queries = {head: urlsplit(link.address).query for head, link in links.items()}
    assert {head: dict(parse_qsl(query)) for head, query in queries.items()} == {
        "Name": {"q": "a", "sort": "name"},
        "Pays in all": {"q": "a", "sort": "pays-in-all"},
    }  # fmt: skip
    text = table("x", ("Name", "Pays in all"), [("a", 1)], links=links)
    assert re.findall(r'aria-sort="(\w+)"', text) == ["descending"]


def test_the_pages_of_a_choice_keep_it() -> None:
    """The links to other pages, the form and the heading have what was chosen."""
    rows = [(f"a{number}", float(number)) for number in range(250)] + [("b", 1.0)]
    request: Any = SimpleNamespace(asked=asked("/x", q="a", sort="-pays-in-all", page="2"))

    def shown(some: Any, _links: Any) -> str:
        return ", ".join(name for name, _ in some)

    text = joined(chosen_rows(request, rows, shown, FIELDS, "thing"))
    assert "a149, a148" in text
    assert "a150," not in text
    assert "250 of 251 things match." in text
    assert 'href="/x?q=a&amp;sort=-pays-in-all&amp;page=3"' in text
    assert 'value="a"' in text
    assert '<option value="-pays-in-all" selected>' in text
    nothing: Any = SimpleNamespace(asked=asked("/x", q="zz"))
    assert "None of 251 things match." in joined(chosen_rows(nothing, rows, shown, FIELDS, "thing"))


def test_vms_are_found_by_name_id_tenant_and_host() -> None:
    """Each is enough."""
    view = view_of(3, [0, 1, 2, -1], np.full((4, 2), 100.0))
    fields = vm_fields(view)
    found = {
        words: chosen(fields, range(4), RowChoice("/vms", words))
        for words in ("vm2", "VM 1", "bob", "host2", "ann host0", "x")
    }
    assert found == {
        "vm2": [2], "VM 1": [1], "bob": [1], "host2": [2], "ann host0": [0], "x": [],
    }  # fmt: skip


@pytest.mark.parametrize("path", ["/vms", "/hosts", "/tenants", "/platforms", "/decisions"])
def test_each_list_can_be_ordered_by_each_offered_column(site: PageSite, path: str) -> None:
    """Both ways, with and without rows that match."""
    admin = site.browser(site.admin)
    text = admin.get(path).text
    orders = re.findall(r'<option value="(-?[a-z-]+)">[^<]* first</option>', text)
    assert len(orders) >= 6
    for order in orders:
        for search in ("", "a"):
            answer = admin.get(f"{path}?{urlencode({'sort': order, 'q': search})}")
            assert answer.status == 200
            assert "aria-sort" in answer.text or search, order


def test_a_search_leaves_only_its_vms(site: PageSite) -> None:
    """The administrator finds Ann's VM by its name, and no other VM."""
    admin = site.browser(site.admin)
    text = admin.get("/vms?q=anns-secret-vm").text
    table_ = text.partition("<tbody")[2]
    assert f'href="/vms/{site.vm}"' in table_
    assert 'href="/vms/1"' not in table_
    assert 'href="/vms/1"' in admin.get("/vms").text
