"""After temporary faults of the server, good periods correct the state."""

from collections.abc import Iterator

import pytest

from tests.daemon.agreement import agree
from tests.daemon.harness import CALL_LIMIT_S, INTERVAL_S, Site
from tests.daemon.harness import site as running
from tests.daemon.settling import settle
from tests.daemon.soak import FAULT_ROUNDS, FIRST_SEED
from tests.lengths import SOAK

ILL_S = 4 * INTERVAL_S
"""The duration of the faults."""

LATE_S = 2 * CALL_LIMIT_S


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Start one site for all faults, one after another."""
    with running(tmp_path_factory.mktemp("faults"), FIRST_SEED) as running_site:
        running_site.after_good_periods(1)
        yield running_site


@pytest.fixture
def site(lasting: Site) -> Iterator[Site]:
    """Return a site with busy tenants; check afterwards that it settles without an error."""
    lasting.busy_for(INTERVAL_S)
    yield lasting
    lasting.heal()
    settle(lasting)
    agree(lasting)
    assert lasting.daemon is not None
    assert lasting.daemon.running
    assert "Traceback" not in lasting.daemon.output(), lasting.daemon.output()


EACH_ROUND = pytest.mark.parametrize("turn", range(FAULT_ROUNDS))

KINDS: list[tuple[str, dict[str, float]]] = [
    ("refuse", {}),
    ("delay", {"seconds": LATE_S}),
    ("hang", {}),
    ("garbage", {}),
    ("truncate", {}),
    ("lose", {}),
]


def each_kind(number: int) -> pytest.MarkDecorator:
    """Return all kinds in `make soak`, else every second one, beginning with this number."""
    kinds = KINDS if SOAK else KINDS[number::2]
    names = [kind for kind, _ in kinds]
    return pytest.mark.parametrize(("kind", "fields"), kinds, ids=names)


@EACH_ROUND
@each_kind(0)
def test_the_daemon_waits_for_a_server_that_fails_every_call(
    site: Site, kind: str, fields: dict[str, float], turn: int
) -> None:
    """It sees and sends nothing, and makes no decision on partial data."""
    del turn
    site.fault(kind, "*info*", **fields)
    site.fault(kind, "one.vm.*", **fields)
    site.busy_for(ILL_S)


@EACH_ROUND
@each_kind(1)
def test_steps_without_a_valid_answer_are_judged_by_the_pools(
    site: Site, kind: str, fields: dict[str, float], turn: int
) -> None:
    """The pools are readable, but half of the steps have no known outcome."""
    del turn
    for method in ("one.vm.deploy", "one.vm.migrate", "one.vm.a[cl]*", "embedded.limits.set"):
        site.fault(kind, method, probability=0.5, **fields)
    site.busy_for(ILL_S)


@EACH_ROUND
def test_hanging_logins_of_owners_leave_no_vm_behind(site: Site, turn: int) -> None:
    """A creation is two calls: the login and the allocation."""
    del turn
    site.fault("hang", "one.user.login")
    site.busy_for(2 * ILL_S)


@EACH_ROUND
@pytest.mark.parametrize("what", ["vm", "host"])
def test_outdated_pools_mislead_the_daemon_only_briefly(site: Site, what: str, turn: int) -> None:
    """The daemon reads each VM before it acts on it."""
    del turn
    site.lie(what, ILL_S)
    site.busy_for(ILL_S + INTERVAL_S)


@EACH_ROUND
def test_a_failed_live_migration_leaves_the_vm_on_its_host(site: Site, turn: int) -> None:
    """The step fails, and the VM keeps its old host."""
    del turn
    site.fault("fail", lcm="MIGRATE")
    site.busy_for(ILL_S)


@EACH_ROUND
def test_a_failed_deployment_waits_for_a_recovery_by_hand(site: Site, turn: int) -> None:
    """The daemon does not retry it; after the recovery the site settles."""
    del turn
    site.fault("fail", lcm="BOOT")
    site.busy_for(ILL_S)
    site.heal()
    agree(site)
    site.recover()


@EACH_ROUND
@pytest.mark.parametrize("crash", [True, False], ids=["dies", "is-cut-off"])
def test_a_returned_host_is_used_again(site: Site, crash: bool, turn: int) -> None:
    """Its lost VMs keep their state until their owners resume them."""
    del turn
    host = int(site.rng.integers(4))
    site.call("embedded.host.down", host, crash)
    site.busy_for(ILL_S)
    site.call("embedded.host.up", host)
    site.after_good_periods(2)
    site.recover()
    site.tenants.resume()
