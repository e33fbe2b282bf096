"""Pages about thousands of VMs stay small, because the event loop's thread creates their markup."""

import asyncio
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import pytest

from merkatd.service.platforms import PlatformVm
from merkatd.web.base.form_reader import Form
from merkatd.web.base.responses import BrowserRequest
from merkatd.web.layout.html import joined
from merkatd.web.layout.page_frame import ROWS
from merkatd.web.pages import platform_pages

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
