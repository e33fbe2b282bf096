"""A strategy scales platforms: the wish, its bounds, and the cases in which it has no say."""

from collections.abc import Iterator

import pytest
from twisted.logger import capturedLogs

from merkatd.cluster import Scale
from merkatd.database.fleets import platform_store
from merkatd.database.scheduler.order_store import Order
from merkatd.scheduler.base.settings import MarketRules
from tests.platforms.site import VM, Site, template
from tests.scheduler.frontend import PAPER_MARKET
from tests.scheduler.scripted_strategy import Script, scripted

WITHOUT = '[controller]\nkind = "none"'


@pytest.fixture
def script() -> Iterator[Script]:
    """Yield the script of the strategy."""
    with scripted() as made:
        yield made


@pytest.fixture
def site(script: Script) -> Iterator[Site]:  # noqa: ARG001 - the strategy comes first
    """Yield a frontend with another market, whose strategy is another."""
    other = MarketRules(name="other", strategy="paper", cluster_names=frozenset({"other"}))
    made = Site(markets=(PAPER_MARKET, other))
    yield made
    made.agree()
    made.close()


def wish(script: Script, site: Site, platform: int, replicas: int) -> None:
    """Let the strategy wish this number of VMs from now on."""
    account = site.platform(platform).account
    assert account is not None
    wished = Scale(application=account, replicas=replicas, reason="its queue grows")
    script.wishes = lambda _snapshot: (wished,)


def refusals(site: Site) -> set[str]:
    """Run a period; return why wishes were not carried out."""
    with capturedLogs() as logs:
        site.periods(1)
    return {str(log["why"]) for log in logs if "wishes" in str(log.get("log_format"))}


def test_a_platform_gets_the_wished_number(script: Script, site: Site) -> None:
    """Up and down; the platform's history says who wanted it, and why."""
    platform = site.submit(controller=WITHOUT)
    site.until(platform, "running")
    wish(script, site, platform, 4)
    assert refusals(site) == set()
    site.periods(3)
    assert len(site.vms(platform)) == 4
    (action,) = [doing for doing in site.doings(platform) if doing.who == "strategy"]
    assert (action.what, action.text) == ("size", "4 VMs in nodes: its queue grows")
    wish(script, site, platform, 1)
    site.periods(4)
    assert len(site.vms(platform)) == 1


def test_a_refusal_that_lasts_is_logged_once(script: Script, site: Site) -> None:
    """It is logged again after the wish was granted, and not after a pause."""
    platform = site.submit(controller=WITHOUT)
    site.until(platform, "running")
    wish(script, site, platform, 9)
    assert [len(refusals(site)) for _ in range(4)] == [1, 0, 0, 0]
    wish(script, site, platform, 3)
    site.periods(2)
    wish(script, site, platform, 9)
    assert [len(refusals(site)) for _ in range(2)] == [1, 0]
    script.wishes = lambda _snapshot: ()
    site.periods(3)
    wish(script, site, platform, 9)
    assert [len(refusals(site)) for _ in range(2)] == [0, 0]


@pytest.mark.parametrize(("wanted", "gets"), [(0, 1), (-5, 1), (2**40, 4)])
def test_the_tenants_bounds_hold(script: Script, site: Site, wanted: int, gets: int) -> None:
    """The reason names them."""
    platform = site.submit(controller=WITHOUT)
    site.until(platform, "running")
    wish(script, site, platform, wanted)
    assert refusals(site) == {f"cluster nodes may have 1 to 4 VMs; it has {gets}"}
    site.periods(4)
    assert len(site.vms(platform)) == gets


def test_a_strategy_has_no_say_over_others(script: Script, site: Site) -> None:
    """Not where a controller decides, in other markets, or for several clusters."""
    second = f'[[cluster]]\nname = "more"\ntemplate = """\n{VM}"""'
    first = template().partition("[[cluster]]")[2]
    cases = {
        "the controller of platform {} decides how many VMs it has": site.submit(),
        "platform {} is in another market": site.submit(
            controller=WITHOUT, top='name = "elsewhere"\nmarket = "other"'
        ),
        "platform {} has 2 clusters instead of one": site.submit(
            controller=WITHOUT, cluster=f"[[cluster]]{first}\n{second}"
        ),
    }
    site.periods(2)
    for why, platform in cases.items():
        before = site.platform(platform).sizes
        wish(script, site, platform, 3)
        assert refusals(site) == {why.format(platform)}
        assert site.platform(platform).sizes == before
    script.wishes = lambda _snapshot: [Scale(application=10**6, replicas=2, reason="")]
    assert refusals(site) == {"it is no platform that exists"}


def test_a_daemon_that_only_watches_scales_nothing(script: Script, site: Site) -> None:
    """Nor does one that asks first."""
    platform = site.submit(controller=WITHOUT)
    site.until(platform, "running")
    wish(script, site, platform, 4)
    for order in (Order.MODE_DRY, Order.MODE_SHADOW, Order.MODE_ASK):
        site.order(order)
        assert refusals(site) == set()
        assert site.platform(platform).sizes == {"nodes": 2}
    site.order(Order.MODE_ON)
    site.periods(1)
    assert site.platform(platform).sizes == {"nodes": 4}


def test_a_repeated_decision_scales_once(script: Script, site: Site) -> None:
    """A later change stays if the decision is stored again."""
    platform = site.submit(controller=WITHOUT)
    site.until(platform, "running")
    wish(script, site, platform, 4)
    announcement = site.periods(1)
    (wished,) = announcement.decided.decision.wishes
    site.read(lambda c: platform_store.change(c, platform, sizes={"nodes": 3}))
    world = site.scheduler.world
    assert site.read(
        lambda c: world.scale(c, world.markets, [wished], announcement.period, 0.0)
    ) == [""]
    assert site.platform(platform).sizes == {"nodes": 3}
