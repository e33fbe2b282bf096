"""Whatever the server does for a while: once it is well again, good periods put all right."""

from collections.abc import Iterator

import pytest

from tests.daemon.agreement import agree
from tests.daemon.harness import CALL_LIMIT_S, INTERVAL_S, Site
from tests.daemon.harness import site as running
from tests.daemon.settling import settle
from tests.daemon.soak import FAULT_ROUNDS, FIRST_SEED

ILL_S = 4 * INTERVAL_S
"""How long the server is ill."""

LATE_S = 2 * CALL_LIMIT_S


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One site for all faults, one after another."""
    with running(tmp_path_factory.mktemp("faults"), FIRST_SEED) as found:
        found.after_good_periods(1)
        yield found


@pytest.fixture
def site(lasting: Site) -> Iterator[Site]:
    """A site with tenants at work; all is right again at the end, and nothing failed on the way."""
    lasting.busy_for(INTERVAL_S)
    yield lasting
    lasting.heal()
    settle(lasting)
    agree(lasting)
    assert lasting.daemon is not None
    assert lasting.daemon.running
    assert "Traceback" not in lasting.daemon.said(), lasting.daemon.said()


EACH_ROUND = pytest.mark.parametrize("turn", range(FAULT_ROUNDS))

EACH_KIND = pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("refuse", {}),
        ("delay", {"seconds": LATE_S}),
        ("hang", {}),
        ("garbage", {}),
        ("truncate", {}),
        ("lose", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)


@EACH_ROUND
@EACH_KIND
def test_a_server_that_fails_in_every_call_is_waited_for(
    site: Site, kind: str, fields: dict[str, float], turn: int
) -> None:
    """Nothing can be seen or done; nothing is decided on half of what there is."""
    del turn
    site.fault(kind, "*info*", **fields)
    site.fault(kind, "one.vm.*", **fields)
    site.busy_for(ILL_S)


@EACH_ROUND
@EACH_KIND
def test_steps_that_are_answered_badly_are_judged_by_what_is_seen(
    site: Site, kind: str, fields: dict[str, float], turn: int
) -> None:
    """The cloud can be seen, but nobody knows what became of half of the steps."""
    del turn
    for method in ("one.vm.deploy", "one.vm.migrate", "one.vm.a[cl]*", "embedded.limits.set"):
        site.fault(kind, method, probability=0.5, **fields)
    site.busy_for(ILL_S)


@EACH_ROUND
def test_logins_of_owners_that_hang_leave_no_vm_behind(site: Site, turn: int) -> None:
    """To log in and to make the VM are two calls; a creation is both."""
    del turn
    site.fault("hang", "one.user.login")
    site.busy_for(2 * ILL_S)


@EACH_ROUND
@pytest.mark.parametrize("what", ["vm", "host"])
def test_pools_that_lie_for_a_while_mislead_nobody_for_long(
    site: Site, what: str, turn: int
) -> None:
    """They go on showing what was; each VM is looked at before it is touched."""
    del turn
    site.lie(what, ILL_S)
    site.busy_for(ILL_S + INTERVAL_S)


@EACH_ROUND
def test_a_live_migration_that_fails_leaves_the_vm_where_it_was(site: Site, turn: int) -> None:
    """The step is given up, and the VM's place is the old one."""
    del turn
    site.fault("fail", lcm="MIGRATE")
    site.busy_for(ILL_S)


@EACH_ROUND
def test_a_deployment_that_fails_is_given_up_until_somebody_recovers_the_vm(
    site: Site, turn: int
) -> None:
    """Nobody tries again by himself what failed on a host; retried by hand, all is well."""
    del turn
    site.fault("fail", lcm="BOOT")
    site.busy_for(ILL_S)
    site.heal()
    agree(site)
    site.recover()


@EACH_ROUND
@pytest.mark.parametrize("crash", [True, False], ids=["dies", "is-cut-off"])
def test_a_host_that_goes_and_comes_back_is_used_again(site: Site, crash: bool, turn: int) -> None:
    """What it lost stays as the cloud found it, until its owner wants it to run."""
    del turn
    host = int(site.rng.integers(4))
    site.call("embedded.host.down", host, crash)
    site.busy_for(ILL_S)
    site.call("embedded.host.up", host)
    site.after_good_periods(2)
    site.recover()
    site.tenants.resume()
