"""Pages about thousands of limit orders, and forms that name a thousand VMs, take little time."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from merkatd.scheduler.base.settings import MarketRules
from merkatd.service.market.stated_orders import BookedOrder
from merkatd.web.base.form_reader import Form
from merkatd.web.layout.html import Part, WrongInputError, joined
from merkatd.web.layout.row_lists import ROWS
from merkatd.web.pages import limit_order_pages, visible_rows

ORDERS = 1_000
VMS = 2_000


def book_page(monkeypatch: Any, **query: str) -> str:
    """Return the page of limit orders while other tenants have 1,000 of them."""

    async def in_frame(_request: Any, _title: str, *main: Part, **_more: Any) -> str:
        return joined(main)

    async def read(key: tuple[Any, ...], _read: Callable[[], Awaitable[Any]]) -> Any:
        return book if key[0] == "limit order book" else []

    monkeypatch.setattr(limit_order_pages, "page_in_frame", in_frame)
    monkeypatch.setattr(limit_order_pages, "busy_markets", lambda _: {MarketRules().name})
    book = [
        BookedOrder(height=1.0, limit=float(10_000 + number), runs=False, bundle={"cpu": 100.0})
        for number in range(ORDERS)
    ]
    now = SimpleNamespace(owner_names={}, snapshot=SimpleNamespace(resources=("cpu",)))
    asked = SimpleNamespace(query=Form(urlencode(query).encode()), path="/limit-orders/quote")
    request: Any = SimpleNamespace(
        asked=asked,
        now=now,
        read=read,
        caller=None,
        uid=4,
        form="",
        house=SimpleNamespace(
            world=SimpleNamespace(markets=[MarketRules()]),
            limit_orders=SimpleNamespace(orders=print, book=print),
        ),
    )

    async def page() -> str:
        return str(await limit_order_pages.limit_orders(request))

    return asyncio.run(page())


@pytest.mark.parametrize("part", [1, 10])
def test_the_book_shows_a_hundred_orders_at_a_time(monkeypatch: Any, part: int) -> None:
    """One tenant with many orders makes the page of no other slow."""
    text = book_page(monkeypatch, book=str(part))
    shown = [number for number in range(ORDERS) if f">{10_000 + number:,}<" in text]
    assert shown == list(range((part - 1) * ROWS, part * ROWS))
    there = part - 1 if part > 1 else part + 1
    assert f'href="/limit-orders?book={there}"' in text


def test_the_parts_of_the_book_are_those_of_no_other_list(monkeypatch: Any) -> None:
    """A page of the visitor's own orders begins with the first part of the book."""
    assert ">10,000<" in book_page(monkeypatch, page="3")


class Names(list[str]):
    """The names of VMs, which count how often they are read."""

    reads = 0

    def __getitem__(self, row: Any) -> Any:
        Names.reads += 1
        return super().__getitem__(row)


def asked_for(monkeypatch: Any, words: str, names: list[str]) -> list[int]:
    """Return the ids of the VMs that a form names."""
    monkeypatch.setattr(visible_rows, "vms", lambda _request: list(range(len(names))))
    table = SimpleNamespace(name=Names(names), id=np.arange(len(names)) + 7)
    request: Any = SimpleNamespace(now=SimpleNamespace(snapshot=SimpleNamespace(vms=table)))
    return limit_order_pages._vms(request, words)


def test_a_form_that_names_a_thousand_vms_reads_each_name_once(monkeypatch: Any) -> None:
    """The event loop's thread reads it: each of 1,000 words was compared with each name."""
    Names.reads = 0
    words = " ".join(["vm1999"] * 1_000)
    assert asked_for(monkeypatch, words, [f"vm{vm}" for vm in range(VMS)]) == [2006] * 1_000
    assert Names.reads <= 2 * VMS


def test_names_and_ids_keep_their_order(monkeypatch: Any) -> None:
    """An ambiguous name is refused, and so is an unknown one."""
    assert asked_for(monkeypatch, "b, 3 a", ["a", "b"]) == [8, 3, 7]
    for words, text in (("c", "2 VMs of yours"), ("d", "No VM of yours")):
        with pytest.raises(WrongInputError, match=text):
            asked_for(monkeypatch, words, ["a", "c", "c"])
