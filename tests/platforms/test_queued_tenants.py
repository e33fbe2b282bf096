"""Patient platforms and their tenants: suspend, stop, change, limits, what is shown."""

from collections.abc import Iterator

import pytest

from merkatd.api.values.plain_values import members
from merkatd.commands.terminal.platform_text import platform_lines
from merkatd.database.scheduler import limit_order_store
from merkatd.platforms.declarations.template_time import TemplateTime
from merkatd.platforms.platform_views import platform_view
from merkatd.platforms.tenant_orders import Update
from merkatd.protocol.platform_messages import (
    GiveUp,
    SetLimit,
)
from tests.platforms.queues import COST, Queues, closed_after
from tests.platforms.site import BOB


@pytest.fixture
def site() -> Iterator[Queues]:
    """Return a cloud with one host."""
    yield from closed_after(Queues())


class TestTenant:
    @pytest.mark.parametrize("state", ["starting", "queued", "running", "displaced"])
    def test_a_suspended_platform_keeps_its_vms(self, site: Queues, state: str) -> None:
        """It goes on with the same VMs once its tenant resumes it."""
        if state == "displaced":
            platform = site.displaced()
        else:
            if state == "queued":
                site.patient(60_000.0, "2h", owner=site.bob)
                site.periods(3)
            platform = site.patient()
            site.until(platform, state)
            if state == "running":
                site.periods(2)
        site.wait(site.manager.suspend(platform, "ann"))
        site.until(platform, "suspended")
        vms = site.vms(platform)
        before = site.read(lambda c: limit_order_store.living(c, site.ann))
        assert before == ()
        site.periods(3)
        assert site.states(platform) <= {"PENDING", "STOPPED"}
        site.give_way(platform)
        site.periods(4)
        assert site.states(platform) <= {"PENDING", "STOPPED"}
        site.wait(site.manager.resume(platform, "ann"))
        site.until(platform, "running")
        assert not set(vms) & site.ended()
        if state != "starting":
            assert site.vms(platform) == vms
        assert site.states(platform) == {"RUNNING"}

    @pytest.mark.parametrize(
        "state", ["starting", "queued", "running", "displaced", "suspending", "suspended"]
    )
    def test_a_stopped_platform_leaves_nothing(self, site: Queues, state: str) -> None:
        """Its VMs, its order and its account end in every state."""
        before = site.balances()[site.ann]
        if state == "displaced":
            platform = site.displaced()
            site.give_way(platform)
        else:
            if state == "queued":
                site.vm(50_000.0, BOB, CPU=1, VCPU=4, MEMORY=1024)
                site.periods(3)
            platform = site.patient()
            site.until(platform, "running" if state.startswith("susp") else state)
            if state.startswith("susp"):
                site.wait(site.manager.suspend(platform, "ann"))
                site.until(platform, state)
        site.wait(site.manager.stop(platform, "ann"))
        site.until(platform, "cancelled")
        site.periods(3)
        assert not set(site.vms(platform))
        assert site.limit_order(platform) is None
        assert before - 20 * COST <= site.balances()[site.ann] <= before

    def test_a_suspension_that_is_taken_back_at_once(self, site: Queues) -> None:
        """Some VMs may be down already."""
        platform = site.patient()
        site.until(platform, "running")
        vms = site.vms(platform)
        site.wait(site.manager.suspend(platform, "ann"))
        site.periods(1)
        site.wait(site.manager.resume(platform, "ann"))
        site.until(platform, "running")
        site.periods(2)
        assert site.vms(platform) == vms
        assert site.states(platform) == {"RUNNING"}

    def test_a_later_deadline_lowers_what_it_offers(self, site: Queues) -> None:
        """More credits raise it."""
        site.patient(60_000.0, "2h", owner=site.bob)
        platform = site.patient(600.0, "1h", "30m")
        site.until(platform, "queued")
        site.periods(1)
        first = site.orders(platform).limit
        site.update(platform, Update(deadline=TemplateTime(after_s=4 * 3600.0)))
        site.periods(1)
        second = site.orders(platform).limit
        site.update(platform, Update(budget=6_000.0))
        site.periods(1)
        assert second < first
        assert site.orders(platform).limit > 5 * second


def test_limits_are_bounded(site: Queues) -> None:
    """A controller may state any limit that its balance pays, for its own platform's order."""
    platform = site.patient()
    site.until(platform, "running")
    site.periods(1)
    has = site.notes.news[-1].balance
    for number, limit in enumerate((0.0, -1.0, float("nan"), float("inf"), 1.01 * has)):
        refused = site.act(platform, SetLimit(limit=limit), f"refused {number}")
        assert not refused.accepted
        assert "a limit must be above 0 and at most" in refused.why
    assert site.act(platform, SetLimit(limit=0.9 * has), "most").accepted
    assert site.orders(platform).limit == 0.9 * has
    assert site.act(platform, SetLimit(limit=0.8 * has), "less").accepted
    told = [doing.text for doing in site.doings(platform) if doing.what == "limit"]
    assert [text for text in told if text.startswith("at most ")] == [
        f"at most {0.8 * has:.4g} credits a period"
    ]
    assert site.act(platform, GiveUp(reason="tired"), "end").accepted


def shown(site: Queues, platform: int) -> str:
    """Return the text of `platform show`."""
    announcement, world = site.periods(1), site.scheduler.world
    row = site.platform(platform)
    view = site.read(lambda c: platform_view(c, row, world, announcement))
    return " ".join(platform_lines(members(view), None))


def test_its_tenant_sees_limit_and_cost(site: Queues) -> None:
    """Before the start the limit that it would state, then the cost, or what it lacks."""
    later = site.patient(start='[start]\nnot_before = "5h"', deadline="10h")
    runs = site.patient()
    site.until(runs, "running")
    waits = site.patient(owner=site.bob)
    site.until(waits, "queued")
    site.periods(1)
    limit = site.orders(runs).limit
    assert f"Its limit order may cost {limit:.4g} credits a period, and pays" in shown(site, runs)
    text = shown(site, waits)
    assert "is queued: limit order" in text
    assert site.orders(waits).why in text
    assert text.count("in nodes: pending") == 3
    assert "and it would start with" in text
    assert "they bid" not in text
    before_start, after_start = (
        float(some.partition("would start with ")[2].split()[0].rstrip("."))
        for some in (site.orders(waits).why, text.partition("credits a period; ")[2])
    )
    assert after_start == pytest.approx(before_start, rel=1e-3)
    text = shown(site, later)
    assert "Its limit order may cost 0.6072 credits a period; it would start with" in text
    site.wait(site.manager.stop(runs, "ann"))
    site.wait(site.manager.stop(waits, "bob"))
    site.periods(3)
    text = shown(site, later)
    assert "may cost 0.6072 credits a period; it would start with 0.6072." in text
