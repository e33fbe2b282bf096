"""The three interfaces give equal answers about platforms, groups and modes."""

from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.api.xmlrpc.errors import Code
from merkatd.database.fleets import platform_store
from merkatd.groups.group_keeper import Keeper
from merkatd.scheduler.context import all_proposals
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import NotPermittedError
from merkatd.service.base.identity import Identity
from merkatd.service.groups import Edit
from merkatd.service.platforms import Update
from merkatd.web.base.live_updates import Listener
from tests.groups.site import GROUPS
from tests.groups.site import template as group_template
from tests.platforms.site import BOB, Site, template
from tests.scheduler.frontend import PAPER_MARKET, PASSWORD, SESSION, Frontend
from tests.service.interfaces import Interfaces, without_none

ANN = f"ann:{PASSWORD}"


class Orders(Interfaces):
    """Ann has a platform and a group; Bob has nothing."""

    def __init__(self) -> None:
        self.site = Site(markets=(PAPER_MARKET, GROUPS))
        world = self.site.scheduler.world
        keeper = Keeper(world)
        proposals = all_proposals(self.site.manager.proposals, keeper.proposals)
        self.site.scheduler.world = replace(world, proposals=proposals)
        super().__init__(self.site, self.site.manager, keeper)
        self.platform = self.site.submit(slo='[slo]\ndeadline = "6h"')
        request = {"template": group_template(), "rate": 60.0, "count": 1}
        created, _ = self.call(ANN, "merkat.group.create", request)
        self.group: int = created["id"]
        self.periods(2)
        self.bob = Caller(Identity(self.site.bob, "bob", frozenset({1}), 1), BOB)

    def wait(self, coroutine: Any) -> Any:
        """Return the result of a service's call."""
        return self.site.result(ensureDeferred(coroutine))


@pytest.fixture
def asked() -> Iterator[Orders]:
    """Yield interfaces for one test."""
    made = Orders()
    yield made
    made.site.close()


def test_a_platform_is_the_same_everywhere(asked: Orders) -> None:
    """XML-RPC has all data of the control socket, and the page shows them."""
    row = without_none(asked.control("platform", platform=asked.platform))
    for login in (SESSION, ANN):
        assert asked.call(login, "merkat.platform.info", asked.platform) == (row, 0)
        page = unescape(asked.page(login, f"/platforms/{asked.platform}").body.decode())
        assert row["name"] in page
        assert all(f'"/vms/{vm["vm"]}"' in page for vm in row["vms"])
    short = without_none(asked.control("platforms", tenant="ann"))
    assert asked.call(ANN, "merkat.platform.list") == (short, 0)
    assert f'"/platforms/{asked.platform}"' in asked.page(ANN, "/platforms").body.decode()


def test_an_order_has_its_author(asked: Orders) -> None:
    """Whichever interface gives the order, all show the change."""
    asked.control("platform_update", platform=asked.platform, performance=1.0, who="root")
    asked.call(ANN, "merkat.platform.update", asked.platform, {"performance": 2.0})
    answer = asked.page(ANN, f"/platforms/{asked.platform}/change", performance="3")
    assert answer.status == 303
    actions = asked.control("platform", platform=asked.platform)["actions"]
    assert [(action["who"], action["text"]) for action in actions[:3]] == [
        (f"user {asked.site.ann}", "performance 3"),
        (f"user {asked.site.ann}", "performance 2"),
        ("root", "performance 1"),
    ]


def test_impossible_orders_have_the_same_text(asked: Orders) -> None:
    """Each interface has its own code for the same text."""
    asked.call(ANN, "merkat.platform.stop", asked.platform)
    asked.periods(3)
    message = asked.control("platform_suspend", platform=asked.platform)
    assert message == f"platform {asked.platform} is cancelled"
    text, code = asked.call(ANN, "merkat.platform.suspend", asked.platform)
    assert (text, code) == (f"[merkat.platform.suspend] {message}", Code.RPC_API)
    page = asked.page(ANN, f"/platforms/{asked.platform}/suspend", deadline="")
    assert page.status == 422
    wrong = template(budget="[budget]\ncredits = 99999999")
    message = asked.control("platform_submit", tenant="ann", template=wrong)
    text, code = asked.call(ANN, "merkat.platform.submit", wrong)
    assert (text, code) == (f"[merkat.platform.submit] {message}", Code.RPC_API)
    answer = asked.page(ANN, "/platforms/submit", template=wrong)
    assert (answer.status, message in unescape(answer.body.decode())) == (422, True)
    message = asked.control("platform", platform=99)
    assert asked.call(ANN, "merkat.platform.info", 99) == (
        f"[merkat.platform.info] {message}",
        Code.NO_EXISTS,
    )
    assert asked.page(ANN, "/platforms/99").status == 404


def test_another_tenants_platforms_are_protected(asked: Orders) -> None:
    """XML-RPC denies access, and the page does not reveal whether they exist."""
    asked.periods(2)
    for verb in ("info", "suspend", "resume", "stop"):
        method = f"merkat.platform.{verb}"
        assert asked.call(BOB, method, asked.platform)[1] == Code.AUTHORIZATION
    assert asked.page(BOB, f"/platforms/{asked.platform}").status == 404
    assert asked.page(BOB, f"/platforms/{asked.platform}/stop", deadline="").status == 404
    for verb in ("info", "delete"):
        assert asked.call(BOB, f"merkat.group.{verb}", asked.group)[1] == Code.AUTHORIZATION
    assert asked.control("platform", platform=asked.platform)["state"] == "running"
    (group,), _ = asked.call(ANN, "merkat.group.list")
    assert group["state"] == "active"
    assert asked.call(BOB, "merkat.group.list") == ([], 0)


def test_services_check_rights_for_every_interface(asked: Orders) -> None:
    """Also without an interface's check, the service refuses."""
    platforms, groups = asked.services.require_platforms(), asked.services.require_groups()
    bob, ann, platform, group = asked.bob, asked.site.ann, asked.platform, asked.group
    modes, daemon = asked.services.modes, asked.services.daemon
    for refused in (
        platforms.platforms(bob),
        platforms.platforms(bob, ann),
        platforms.platform(bob, platform),
        platforms.submit(bob, ann, template()),
        platforms.try_submit(bob, ann, template()),
        platforms.update(bob, platform, Update(budget=1.0)),
        platforms.try_update(bob, platform, Update(budget=1.0)),
        platforms.suspend(bob, platform),
        platforms.resume(bob, platform),
        platforms.stop(bob, platform),
        groups.group(bob, group),
        groups.edit(bob, group, Edit(nvm=0)),
        groups.delete(bob, group),
        groups.rename(bob, group, "mine"),
        groups.set_permissions(bob, group, "666"),
        groups.set_owner(bob, group, asked.site.bob, None),
        modes.set_mode(bob, "dry", "bob"),
        modes.standing_plan(bob),
        modes.approve(bob, "bob", None, frozenset()),
        modes.refuse(bob, "bob", None),
        modes.differences(bob, 5),
        daemon.pause(bob, "bob"),
        daemon.resume(bob, "bob"),
        daemon.drain(bob, "0", "bob"),
        daemon.undrain(bob, "0", "bob"),
        daemon.snapshot(bob),
    ):
        with pytest.raises(NotPermittedError):
            asked.wait(refused)


def test_the_mode_and_its_plan_are_the_same_everywhere(asked: Orders) -> None:
    """One interface sets the mode, all show it, and errors have the same text."""
    assert asked.page(SESSION, "/daemon/mode", mode="ask").status == 303
    shown = asked.control("mode")
    mode, _ = asked.call(SESSION, "merkat.mode.info")
    assert mode == {name: without_none(shown)[name] for name in mode}
    assert (shown["mode"], shown["ordered"]) == ("ask", "ask")
    asked.site.vm(2.0, owner=ANN)
    asked.periods(2)
    plan = asked.control("standing_plan")
    assert plan["state"] == "waiting"
    assert asked.call(SESSION, "merkat.plan.info") == (without_none(plan), 0)
    page = unescape(asked.page(SESSION, "/plan").body.decode())
    assert all(step["reason"] in page for step in plan["steps"])
    message = asked.control("approve_plan", plan=99)
    assert asked.call(SESSION, "merkat.plan.approve", 99) == (
        f"[merkat.plan.approve] {message}",
        Code.RPC_API,
    )
    answer = asked.page(SESSION, "/plan/approve", plan="99")
    assert (answer.status, message in unescape(answer.body.decode())) == (422, True)
    assert asked.page(SESSION, "/plan/approve", plan=str(plan["plan"])).status == 303
    assert asked.control("standing_plan")["state"] == "approved"


def test_pauses_and_drained_hosts_are_the_same_everywhere(asked: Orders) -> None:
    """One interface gives the order, the others show it; a tenant may not."""
    assert asked.call(ANN, "merkat.daemon.pause")[1] == Code.AUTHORIZATION
    assert asked.page(ANN, "/daemon/pause", plan="").status == 404
    assert asked.call(SESSION, "merkat.daemon.pause") == ({"changed": True}, 0)
    assert asked.control("status")["paused"] is True
    assert "Paused" in asked.page(ANN, "/").body.decode()
    assert asked.page(SESSION, "/daemon/resume", plan="").status == 303
    assert asked.call(ANN, "merkat.daemon.info")[0]["paused"] is False
    assert asked.page(SESSION, "/hosts/0/drain", plan="").status == 303
    assert asked.control("status")["drained_hosts"] == [0]
    assert asked.control("undrain", host="0")["changed"] is True
    origins = [order["origin"].partition(" from ")[0] for order in asked.control("orders")]
    assert origins == ["control socket", "web page", "web page", "XML-RPC"]


def test_an_order_renews_the_pages_that_show_it(asked: Orders) -> None:
    """Those of its tenant and of administrators; a refused one renews none, however often."""
    listeners = asked._site._listeners
    messages: dict[str, list[bytes]] = {}
    for name, user in (("ann", asked.site.ann), ("bob", asked.site.bob), ("root", 0)):
        messages[name] = []
        page = Listener(messages[name].append, lambda: None, lambda: None)
        listeners.add(page, user, lambda: True, admin=user == 0)
        messages[name].clear()
    at = f"/platforms/{asked.platform}"
    for _ in range(5):
        assert asked.page(ANN, f"{at}/change", performance="-3").status == 422
        assert asked.page(ANN, f"{at}/resume", deadline="").status == 422
        assert asked.page(f"bob:{PASSWORD}", f"{at}/stop", deadline="").status == 404
    assert messages == {"ann": [], "bob": [], "root": []}
    assert asked.page(ANN, f"{at}/change", performance="3").status == 303
    assert [len(messages[name]) for name in ("ann", "bob", "root")] == [1, 0, 1]
    assert asked.page(SESSION, "/daemon/mode", mode="ask").status == 303
    assert [len(messages[name]) for name in ("ann", "bob", "root")] == [2, 1, 2]


@pytest.mark.parametrize("path", ["/platforms", "/", "/tenants/2"])
def test_a_tenants_platforms_are_read_for_one_page_at_a_time(asked: Orders, path: str) -> None:
    """Their charges of a year are added up: windows of one user take turns, as its calls do."""
    turns = asked.noted_turns()
    assert asked.call(ANN, "merkat.platform.list")[1] == 0
    assert turns.taken == [2]
    assert asked.page(ANN, path).status == 200
    assert turns.taken.count(2) > (1 if path != "/tenants/2" else 3)


@pytest.mark.parametrize("way", ["control", "xmlrpc", "own"])
def test_variables_are_the_tenants_whoever_submits(asked: Orders, way: str) -> None:
    """Ann reads the context of her VMs: it tells nothing of the administrator's account."""
    for user, secret in ((0, "roots"), (asked.site.ann, "anns")):
        asked.site.bench.ok("one.user.update", user, f'SECRET="{secret}"', 1)
    text = template().replace("MEMORY", 'CONTEXT=[KEY="$USER[SECRET]",WHO="$UNAME"]\nMEMORY', 1)
    if way == "control":
        new = asked.control("platform_submit", tenant="ann", template=text, who="root")
    else:
        login = SESSION if way == "xmlrpc" else ANN
        new, _ = asked.call(login, "merkat.platform.submit", text, asked.site.ann)
    stored = asked.site.read(lambda c: platform_store.locked(c, new["id"]))
    (lines,) = stored.vm_templates.values()
    assert 'KEY="anns"' in lines
    assert 'WHO="ann"' in lines


def test_a_page_about_a_part_that_does_not_run_says_so() -> None:
    """The visitor has not sent too many requests, and another try does not help."""
    frontend = Frontend(hosts=1)
    login = frontend.user("ann")
    page = Interfaces(frontend).page(login, "/platforms/1")
    frontend.close()
    assert page.status == 501
    assert b"This daemon does not support platforms." in page.body
