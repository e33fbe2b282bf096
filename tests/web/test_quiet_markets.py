"""Markets in which the visitor has no VMs stay folded."""

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from merkatd.cluster import Markets
from merkatd.service.base.callers import Caller
from merkatd.service.base.identity import Identity
from merkatd.service.market.prices import PastPriceRow
from merkatd.web.layout.history_panels import price_charts
from merkatd.web.layout.html import joined
from merkatd.web.layout.page_frame import busy_markets
from tests.web.presents import view_of

MARKETS = ("day", "night", "spot")
PRICES = [PastPriceRow(1, 0.0, market, {"cpu": 0.1}) for market in MARKETS]


def request(uid: int, market: list[int], *, admin: bool = False) -> Any:
    """Return a visit to VMs 0, 1, ... of owners 0, 1, ... in these markets."""
    view = view_of(1, [0] * len(market), np.full((len(market), 2), 100.0))
    vms = replace(view.snapshot.vms, market=np.array(market, dtype=np.int64))
    snapshot = replace(view.snapshot, vms=vms, markets=Markets(name=MARKETS))
    group = 0 if admin else 1
    caller = Caller(Identity(uid, "user", frozenset({group}), group), "login")
    world = SimpleNamespace(rhythm=SimpleNamespace(interval_s=60.0))
    house = SimpleNamespace(world=world)
    return SimpleNamespace(caller=caller, now=replace(view, snapshot=snapshot), house=house)


def test_a_market_is_busy_for_those_who_have_vms_in_it() -> None:
    """An administrator sees all VMs; to a visitor without VMs no market is folded."""
    assert busy_markets(request(1, [0, 1])) == {"night"}
    assert busy_markets(request(7, [0, 1], admin=True)) == {"day", "night"}
    assert busy_markets(request(7, [0, 1])) == set(MARKETS)


def test_charts_of_quiet_markets_are_folded() -> None:
    """They are there, below their names."""
    text = joined(price_charts(request(1, [0, 1]), PRICES, ["cpu"]))
    folded = re.search(r"<details><summary>([^<]*)</summary>(.*)</details>", text)
    assert folded is not None
    assert folded[1] == "Without VMs: day, spot"
    assert "day" in folded[2]
    assert "night" not in folded[2]
    assert "night" in text.partition("<details")[0]
