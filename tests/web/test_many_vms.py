"""Pages about thousands of VMs or tenants stay small: the event loop's thread creates them."""

import asyncio
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from merkatd.service.platforms import PlatformVm
from merkatd.web.base.form_reader import Form
from merkatd.web.base.responses import BrowserRequest
from merkatd.web.layout.html import joined
from merkatd.web.layout.row_lists import ROWS
from merkatd.web.pages import period_pages, platform_pages
from merkatd.web.pages.period_pages import TenantShares, shares_of

VMS = 1_000


def asked(path: str, **query: str) -> BrowserRequest:
    """Return a request for a page."""
    return BrowserRequest(
        method="GET",
        path=path,
        query=Form(urlencode(query).encode()),
        form=Form(b""),
        size=0,
        cookie="",
        by_hand=True,
        own=True,
        address="192.0.2.1",
    )


def render(monkeypatch: Any, request: BrowserRequest) -> str:
    """Return the page of a platform of 1,000 VMs."""
    monkeypatch.setattr(platform_pages, "over_time", lambda *_: None)
    monkeypatch.setattr(platform_pages, "platform_charts", lambda *_: None)
    monkeypatch.setattr(platform_pages, "platform_gaps", lambda *_: ())
    monkeypatch.setattr(platform_pages, "progress_facts", lambda *_: [])
    here: Any = SimpleNamespace(asked=request, now=SimpleNamespace(owner_names={}))
    vms = [PlatformVm(vm=vm, cluster="c", leaving=False, state="running") for vm in range(VMS)]
    platform: Any = SimpleNamespace(
        id=7, name="p", state="done", report=None, why="w", trouble=None, unattended=None,
        vms=vms, actions=(),
    )  # fmt: skip
    return joined(asyncio.run(platform_pages.platform_page(here, platform)))


@pytest.mark.parametrize("page", [1, 4])
def test_a_platforms_page_shows_a_hundred_vms_at_a_time(monkeypatch: Any, page: int) -> None:
    """It has 100 VMs and links to the others, for platforms of any size."""
    text = render(monkeypatch, asked("/platforms/7", page=str(page)))
    shown = [vm for vm in range(VMS) if f'"/vms/{vm}"' in text]
    assert shown == list(range((page - 1) * ROWS, page * ROWS))
    assert f'href="/platforms/7?page={page + 1}"' in text


def test_the_answer_to_a_form_links_to_the_platforms_page(monkeypatch: Any) -> None:
    """The page after a rejected form has links that exist."""
    text = render(monkeypatch, asked("/platforms/7/change"))
    assert 'href="/platforms/7?page=2"' in text


TENANTS = 1_000


def record(owner: list[int], bid: list[float], cost: list[float]) -> Any:
    """Return the record of a period with these VMs, each of which gets twice its bid."""
    bids = np.array(bid, dtype=np.float32).reshape(-1, 1)
    return SimpleNamespace(
        owner=np.array(owner, dtype=np.int32),
        bid=bids,
        given=2 * bids,
        cost=np.array(cost, dtype=np.float32),
    )


@pytest.mark.parametrize("page", [1, 10])
def test_the_page_of_a_period_shows_a_hundred_tenants_at_a_time(page: int) -> None:
    """A cloud with 2,000 tenants blocked the event loop for two seconds."""

    async def run(work: Any) -> Any:
        return work()

    moment = record([*range(TENANTS)], [1.0] * TENANTS, [1.0] * TENANTS)
    world = SimpleNamespace(
        executor=SimpleNamespace(run=run), goods=SimpleNamespace(resources=("cpu",))
    )
    request: Any = SimpleNamespace(
        asked=asked("/periods/7", page=str(page)),
        admin=True,
        now=SimpleNamespace(owner_names={}),
        house=SimpleNamespace(world=world),
    )
    text = joined(asyncio.run(period_pages._allocations(request, moment)))
    shown = [owner for owner in range(TENANTS) if f'"/tenants/{owner}"' in text]
    assert shown == list(range((page - 1) * ROWS, page * ROWS))
    assert f'href="/periods/7?page={page + 1 if page == 1 else page - 1}"' in text


def test_the_shares_of_a_period_are_summed_by_tenant() -> None:
    """Tenants without bids are left out, and an unknown cost makes the sum unknown."""
    moment = record([5, 3, 5, 4, 6], [1.0, 2.0, 3.0, 0.0, 1.0], [1.0, 2.0, 3.0, 4.0, np.nan])
    three, five, six = shares_of(moment, None)
    assert three == TenantShares(3, 1, 2.0, [4.0], 2.0)
    assert five == TenantShares(5, 2, 4.0, [8.0], 4.0)
    assert (six.owner, np.isnan(six.cost)) == (6, True)
    assert shares_of(moment, 5) == [five]
    assert shares_of(moment, 4) == []
    assert shares_of(moment, 9) == []
    assert shares_of(record([], [], []), None) == []
