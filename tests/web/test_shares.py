"""Shown shares of VMs, tenants and hosts are those that hosts really give, at any size."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Plan
from merkatd.limits import LimitPlan
from merkatd.web.layout.row_lists import ROWS
from merkatd.web.pages.row_tables import tenants_table
from merkatd.web.pages.visible_rows import host_bars
from merkatd.web.pages.vm_pages import gets_table, has_less
from tests.web.presents import WHOLE, view_of

HOSTS = 3
_CROWDED = np.array([[600.0, 4096.0], [600.0, 4096.0], [300.0, 1024.0]])
"""Decided for VMs 0 and 1, which share a host while a migration is postponed, and VM 2."""


def explain_share(share: tuple[float, float]) -> Any:
    """Return the explanation of a VM with this share."""
    return [
        SimpleNamespace(
            resource=name, share=amount, most=2 * amount, used=None, bid=1.0, cost=1.0,
            why_not_more="its bid",
        )
        for name, amount in zip(("cpu", "memory"), share, strict=True)
    ]  # fmt: skip


class TestAVm:
    def test_a_share_that_its_host_cannot_give_is_reduced(self) -> None:
        """The page shows the difference from the decision, and how long it lasts."""
        now = view_of(HOSTS, [0, 0, 1], _CROWDED)
        text = gets_table(now, 0, explain_share((600.0, 4096.0)))
        assert "4.00 cores" in text
        assert "6.00 cores were decided, but VMs that will leave" in text
        assert "4.00 GiB were" not in text
        assert "until other VMs have left its host" in has_less(now, 0)

    def test_a_share_that_its_host_gives_is_shown_as_decided(self) -> None:
        """This holds on a host with room, and for a VM without a host."""
        now = view_of(HOSTS, [0, -1, 1], _CROWDED)
        text = gets_table(now, 2, explain_share((300.0, 1024.0)))
        assert "3.00 cores" in text
        assert "decided" not in text
        assert has_less(now, 2) == has_less(now, 1) == ""

    def test_memory_that_cannot_change_is_mentioned(self) -> None:
        """The text has the held memory, whatever the share is."""
        held = LimitPlan(Plan(), {}, {}, {2: 2048})
        now = view_of(HOSTS, [0, 0, 1], _CROWDED, limits=held)
        assert "it holds 2.00 GiB" in gets_table(now, 2, explain_share((300.0, 1024.0)))


places = st.lists(st.integers(-1, HOSTS - 1), min_size=1, max_size=12)


@settings(deadline=None, max_examples=40)
@given(places, st.integers(1, HOSTS + 12), st.none() | st.integers(0, 2))
def test_bars_show_each_vm_once(where: list[int], most: int, owner: int | None) -> None:
    """For one owner they show only its VMs, on hosts where it has any.

    The first hosts are there as long as hosts and VMs are at most `most` together.
    """
    now = view_of(HOSTS, where, np.full((len(where), 2), 500.0))
    bars = host_bars(now, frozenset({1}), owner, most)
    mine = [vm for vm, host in enumerate(where) if host >= 0 and owner in {None, vm % 3}]
    hosts = sorted({where[vm] for vm in mine} if owner is not None else range(HOSTS))
    count = len(bars)
    assert [host["id"] for host in bars] == hosts[:count]
    sizes = [1 + sum(where[vm] == host for vm in mine) for host in hosts]
    assert count == 1 or sum(sizes[:count]) <= most
    assert count == len(hosts) or sum(sizes[: count + 1]) > most
    assert all((host["state"] == "drain") == (host["id"] == 1) for host in bars)
    for host in bars:
        there = [vm for vm in mine if where[vm] == host["id"]]
        assert [vm[0] for vm in host["vms"]] == sorted(there, key=lambda vm: (vm % 3, vm))
        assert sum(vm[3] for vm in host["vms"]) <= 1.001
        part = min(500.0 / WHOLE[0], 1.0 / max(where.count(host["id"]), 1))
        assert all(abs(vm[3] - part) < 1e-4 for vm in host["vms"])


def test_a_page_of_tenants_shows_all_of_them() -> None:
    """A hundred tenants have a hundred rows."""
    row = {"name": "x", "vms": 0, "bid": 0.0, "cpu": 0.0, "cost": 0.0, "part": 0.0,
           "balance": 1.0, "lasts_s": None}  # fmt: skip
    rows = [{"owner": owner, **row} for owner in range(ROWS)]
    assert tenants_table(rows).count("<tr") == ROWS + 1
