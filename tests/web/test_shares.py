"""What VMs, tenants and hosts are shown to get is what hosts give, at any size."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Plan
from merkatd.limits import LimitPlan
from merkatd.web.layout.page_frame import ROWS
from merkatd.web.pages.row_tables import tenants_table
from merkatd.web.pages.visible_rows import host_bars
from merkatd.web.pages.vm_pages import gets_table, has_less
from tests.web.presents import WHOLE, present_of

HOSTS = 3
_CROWDED = np.array([[600.0, 4096.0], [600.0, 4096.0], [300.0, 1024.0]])
"""What was decided for VMs 0 and 1, which are on one host while a move is put off, and 2."""


def explained(share: tuple[float, float]) -> Any:
    """What is explained of a VM with this share."""
    return [
        SimpleNamespace(
            resource=name, share=one, most=2 * one, used=None, bid=1.0, cost=1.0,
            why_not_more="its bid",
        )
        for name, one in zip(("cpu", "memory"), share, strict=True)
    ]  # fmt: skip


class TestAVm:
    def test_what_its_host_cannot_give_is_not_shown_as_given(self) -> None:
        """The page says how much less it is than was decided, and until when."""
        now = present_of(HOSTS, [0, 0, 1], _CROWDED)
        text = gets_table(now, 0, explained((600.0, 4096.0)))
        assert "4.00 cores" in text
        assert "6.00 cores were decided, but VMs that will leave" in text
        assert "4.00 GiB were" not in text
        assert "until other VMs have left its host" in has_less(now, 0)

    def test_what_is_given_is_shown_as_decided(self) -> None:
        """On a host with room, and of a VM without one."""
        now = present_of(HOSTS, [0, -1, 1], _CROWDED)
        text = gets_table(now, 2, explained((300.0, 1024.0)))
        assert "3.00 cores" in text
        assert "decided" not in text
        assert has_less(now, 2) == has_less(now, 1) == ""

    def test_memory_that_cannot_be_changed_is_said(self) -> None:
        """It holds that, whatever its share is."""
        held = LimitPlan(Plan(), {}, {}, {2: 2048})
        now = present_of(HOSTS, [0, 0, 1], _CROWDED, limits=held)
        assert "it holds 2.00 GiB" in gets_table(now, 2, explained((300.0, 1024.0)))


places = st.lists(st.integers(-1, HOSTS - 1), min_size=1, max_size=12)


@settings(deadline=None, max_examples=40)
@given(places, st.integers(1, HOSTS), st.none() | st.integers(0, 2))
def test_bars_hold_everybody_once(where: list[int], most: int, owner: int | None) -> None:
    """Of so many hosts; for one owner its own VMs alone, on those hosts where it has any."""
    now = present_of(HOSTS, where, np.full((len(where), 2), 500.0))
    found = host_bars(now, frozenset({1}), owner, most)
    mine = [vm for vm, host in enumerate(where) if host >= 0 and owner in {None, vm % 3}]
    hosts = sorted({where[vm] for vm in mine} if owner is not None else range(HOSTS))[:most]
    assert [host["id"] for host in found] == hosts
    assert all((host["state"] == "drain") == (host["id"] == 1) for host in found)
    for host in found:
        there = [vm for vm in mine if where[vm] == host["id"]]
        assert [one[0] for one in host["vms"]] == sorted(there, key=lambda vm: (vm % 3, vm))
        assert sum(one[3] for one in host["vms"]) <= 1.001
        part = min(500.0 / WHOLE[0], 1.0 / max(where.count(host["id"]), 1))
        assert all(abs(one[3] - part) < 1e-4 for one in host["vms"])


def test_a_page_of_tenants_has_all_of_them() -> None:
    """A hundred rows are a hundred rows."""
    row = {"name": "x", "vms": 0, "bid": 0.0, "cpu": 0.0, "cost": 0.0, "part": 0.0,
           "balance": 1.0, "lasts_s": None}  # fmt: skip
    rows = [{"owner": owner, **row} for owner in range(ROWS)]
    assert tenants_table(rows).count("<tr") == ROWS + 1
