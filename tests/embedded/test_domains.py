"""Failure domains and hosts fail and return as on a real OpenNebula."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock

from tests.embedded.support import Bench, xml
from tests.embedded.test_store import Kept
from tests.lengths import shorten

if TYPE_CHECKING:
    from pathlib import Path

UNKNOWN, RUNNING, POWEROFF = (3, 16), (3, 3), (8, 0)
MONITORED, ERROR, DISABLED = 2, 3, 4
START_S = 60.0
WORKING = "CPU=1 VCPU=1 MEMORY=512 EMBEDDED=[WORK=100000, MEMORY_USE=64]"


def host_state(bench: Bench, host: int) -> int:
    """Return STATE of a host as OpenNebula shows it."""
    return int(xml(bench.ok("one.host.info", host)).findtext("STATE") or -1)


def describe(bench: Bench, host: int, **domains: str) -> None:
    """Give a host these domains instead of its own."""
    lines = [f'MERKAT_{kind.upper()}_DOMAIN="{names}"' for kind, names in domains.items()]
    bench.ok("one.host.update", host, "\n".join(lines), 1)


def test_a_power_domain_ends_the_guests_of_its_hosts() -> None:
    """A host with two feeds survives; the other is in ERROR until it has started again."""
    bench = Bench()
    on_two, on_one = bench.running(WORKING, 0), bench.running(WORKING, 2)
    assert bench.ok("embedded.domain.fail", "power", "feed1") == [0, 1, 2]
    assert [host_state(bench, host) for host in (0, 1, 2)] == [MONITORED, MONITORED, ERROR]
    assert (bench.state(on_two), bench.state(on_one)) == (RUNNING, UNKNOWN)
    assert list(bench.cloud.guests.read()) == [on_two]
    bench.advance(1000)
    assert bench.ok("embedded.domain.list") == {"network": [], "power": ["feed1"]}
    assert bench.ok("embedded.domain.repair", "power", "feed1") == [0, 1, 2]
    bench.advance(START_S - 1)
    assert (host_state(bench, 2), bench.state(on_one)) == (ERROR, UNKNOWN)
    bench.advance(1)
    assert (host_state(bench, 2), bench.state(on_one)) == (MONITORED, POWEROFF)
    bench.ok("one.vm.action", "resume", on_one)
    bench.advance(5)
    assert bench.state(on_one) == RUNNING
    assert bench.charged() == {0: (100, 512, 1), 2: (100, 512, 1)}


def test_a_network_domain_leaves_guests_running_unobserved() -> None:
    """They go on with their work; no limit reaches them, and no order either."""
    bench = Bench()
    describe(bench, 0, network="rack1")
    cut, other = bench.running(WORKING, 0), bench.running(WORKING, 1)
    before = bench.ok("embedded.guest.progress", cut)["done"]
    assert bench.ok("embedded.domain.fail", "network", "rack1") == [0]
    assert (host_state(bench, 0), host_state(bench, 1)) == (ERROR, MONITORED)
    assert (bench.state(cut), bench.state(other)) == (UNKNOWN, RUNNING)
    assert set(bench.ok("embedded.limits.read")) == {str(other)}
    assert bench.ok("embedded.limits.runs", [0, 1]) == f'{{"1": {{"{other}": 1}}}}'
    refused = bench.ok("embedded.limits.set", {str(cut): {"cpu_shares": 2}})
    assert refused == {str(cut): f"VM {cut}: the network does not connect host host000"}
    bench.ok("one.vm.action", "poweroff-hard", cut)
    bench.advance(100)
    assert bench.state(cut) == UNKNOWN
    bench.ok("embedded.domain.repair", "network", "rack1")
    assert (host_state(bench, 0), bench.state(cut)) == (MONITORED, RUNNING)
    after = bench.ok("embedded.guest.progress", cut)["done"]
    assert after - before == pytest.approx(100)


def test_oned_finds_a_guest_that_it_believed_off() -> None:
    """An administrator let the order succeed, which never reached the host."""
    bench = Bench()
    describe(bench, 0, network="rack1")
    vm_id = bench.running(WORKING, 0)
    bench.ok("embedded.domain.fail", "network", "rack1")
    bench.ok("one.vm.action", "poweroff-hard", vm_id)
    bench.advance(0.5)
    bench.ok("one.vm.recover", vm_id, 1)
    assert bench.state(vm_id) == POWEROFF
    bench.ok("embedded.domain.repair", "network", "rack1")
    assert bench.state(vm_id) == RUNNING
    assert bench.vm(vm_id).history[-1].retime == 0


def test_a_guest_that_ended_meanwhile_is_found_off() -> None:
    """Its work ended and it powered itself off while its host was disconnected."""
    bench = Bench()
    describe(bench, 0, network="rack1")
    vm_id = bench.running("CPU=1 MEMORY=512 EMBEDDED=[WORK=20, ON_FINISH=poweroff]", 0)
    bench.ok("embedded.domain.fail", "network", "rack1")
    bench.advance(100)
    assert bench.state(vm_id) == UNKNOWN
    bench.ok("embedded.domain.repair", "network", "rack1")
    bench.advance(0)
    assert bench.state(vm_id) == POWEROFF


def test_operations_on_disconnected_hosts_fail() -> None:
    """A deployment fails, and a live migration returns to its source."""
    bench = Bench()
    describe(bench, 1, network="rack1")
    vm_id, fresh = bench.running(WORKING, 0), bench.new()
    bench.ok("embedded.domain.fail", "network", "rack1")
    bench.ok("one.vm.migrate", vm_id, 1, True)
    bench.ok("one.vm.deploy", fresh, 1)
    bench.advance(10)
    assert bench.state(vm_id) == RUNNING
    assert bench.vm(vm_id).history[-1].host == 0
    assert bench.state(fresh) == (3, 39)


def test_unobserved_hosts_have_no_new_samples() -> None:
    """The last samples are older than the failure, and lost VMs have none, as before."""
    bench = Bench()
    describe(bench, 0, network="rack1")
    vm_id = bench.running(WORKING, 0)
    bench.advance(100)
    bench.ok("embedded.domain.fail", "network", "rack1")
    before = bench.ok("one.host.monitoring", 0)
    bench.advance(300)
    assert bench.ok("one.host.monitoring", 0) == before
    assert len(xml(bench.ok("one.vm.monitoring", vm_id))) == 0


def test_disabled_and_offline_hosts_keep_their_states() -> None:
    """As in oned: the VMs of a disabled host are UNKNOWN; an offline host is not monitored."""
    bench = Bench()
    for host in (0, 1):
        describe(bench, host, power="cellar")
    disabled, offline = bench.running(WORKING, 0), bench.running(WORKING, 1)
    bench.ok("one.host.status", 0, 1)
    bench.ok("one.host.status", 1, 2)
    bench.ok("embedded.domain.fail", "power", "cellar")
    assert (host_state(bench, 0), bench.state(disabled)) == (DISABLED, UNKNOWN)
    assert (host_state(bench, 1), bench.state(offline)) == (8, RUNNING)
    bench.ok("embedded.domain.repair", "power", "cellar")
    bench.advance(START_S)
    assert (host_state(bench, 0), bench.state(disabled)) == (DISABLED, POWEROFF)
    assert (host_state(bench, 1), bench.state(offline)) == (8, RUNNING)
    bench.ok("one.host.status", 1, 0)
    assert (host_state(bench, 1), bench.state(offline)) == (MONITORED, POWEROFF)


def test_single_hosts_fail_by_name() -> None:
    """The kind `host` does the same as `embedded.host.down` and `.up`."""
    bench = Bench()
    vm_id = bench.running(WORKING, 1)
    assert bench.ok("embedded.domain.fail", "host", "host001") == [1]
    assert (host_state(bench, 1), bench.state(vm_id)) == (ERROR, UNKNOWN)
    assert bench.ok("embedded.domain.repair", "host", "host001") == [1]
    assert (host_state(bench, 1), bench.state(vm_id)) == (MONITORED, POWEROFF)


@pytest.mark.parametrize("call", ["embedded.domain.fail", "embedded.domain.repair"])
@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("storm", "feed1", "kind must be one of network, power, host (got 'storm')"),
        ("power", "feed9", "unknown power domain 'feed9'; known domains: feed1, feed2"),
        ("network", "", "unknown network domain ''; known domains: switch1, switch2"),
        ("host", "feed1", "unknown host 'feed1'; `one.hostpool.info` lists them"),
    ],
)
def test_wrong_domains_are_refused(call: str, kind: str, name: str, message: str) -> None:
    """The message has the value and the known ones, and nothing fails."""
    bench = Bench()
    code, text = bench.refused(call, kind, name)
    assert (code, text) == (4096, f"[{call}] {message}")
    assert bench.cloud.failures.failed == {}


def test_only_administrators_let_domains_fail() -> None:
    """A tenant's call is refused."""
    bench = Bench()
    ann = bench.user("ann")
    for call in ("embedded.domain.fail", "embedded.domain.repair"):
        assert bench.refused(call, "power", "feed1", session=ann)[0] == 512
    assert bench.refused("embedded.domain.list", session=ann)[0] == 512
    for call in ("embedded.host.sleep", "embedded.host.wake"):
        assert bench.refused(call, 0, session=ann)[0] == 512
    assert bench.refused("embedded.host.power", session=ann)[0] == 512


def test_a_host_follows_a_change_of_its_domains() -> None:
    """It moves to a dead feed and back: by its own attribute, and by its cluster's."""
    bench = Bench()
    describe(bench, 0, power="dead")
    bench.ok("embedded.domain.fail", "power", "dead")
    describe(bench, 1, power="dead")
    assert [host_state(bench, host) for host in (0, 1, 2)] == [ERROR, ERROR, MONITORED]
    describe(bench, 1, power="feed1")
    bench.advance(START_S)
    assert [host_state(bench, host) for host in (0, 1, 2)] == [ERROR, MONITORED, MONITORED]
    plain = bench.ok("one.host.allocate", "plain", "kvm", "kvm", 0)
    bench.ok("one.cluster.update", 0, 'MERKAT_POWER_DOMAIN="dead"', 1)
    assert host_state(bench, plain) == ERROR


def test_failures_survive_a_restart(tmp_path: Path) -> None:
    """Domains, starts under way and sleeping hosts are restored, and time passes meanwhile."""
    first = Kept(tmp_path / "state")
    describe(first, 0, power="feed1")
    describe(first, 1, network="rack1")
    dead, cut = first.running(WORKING, 0), first.running(WORKING, 1)
    first.ok("embedded.domain.fail", "power", "feed1")
    first.ok("embedded.domain.fail", "network", "rack1")
    first.ok("embedded.domain.repair", "power", "feed1")
    first.advance(START_S / 2)
    done = first.ok("embedded.guest.progress", cut)["done"]
    clock = Clock()
    clock.advance(first.clock.seconds())
    second = Kept(tmp_path / "state", clock)
    assert second.ok("embedded.domain.list") == {"network": ["rack1"], "power": []}
    assert second.ok("embedded.host.power") == first.ok("embedded.host.power")
    assert (second.state(dead), second.state(cut)) == (UNKNOWN, UNKNOWN)
    second.advance(START_S / 2)
    second.ok("embedded.domain.repair", "network", "rack1")
    assert (second.state(dead), second.state(cut)) == (POWEROFF, RUNNING)
    assert second.ok("embedded.guest.progress", cut)["done"] == pytest.approx(done + START_S / 2)
    third = Kept(tmp_path / "state", clock)
    assert third.ok("embedded.domain.list") == {"network": [], "power": []}


NAMES = {"power": ("feed1", "feed2"), "network": ("left", "right")}
HOSTS = (("feed1", "left"), ("feed2", "left right"), ("feed1 feed2", "right"), ("", ""))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["fail", "repair"]), st.sampled_from([*NAMES]), st.booleans()),
        st.tuples(st.sampled_from(["down", "up"]), st.integers(0, 3), st.booleans()),
    ),
    max_size=12,
)


@settings(max_examples=shorten(200, 60), deadline=None)
@given(STEPS)
def test_a_host_is_up_while_a_domain_of_each_kind_works(steps: list[tuple[str, str, bool]]) -> None:
    """After any failures: guests run if the power lasted, and VMs are seen if all else works."""
    bench = Bench(0)
    bench.cloud.add_hosts(4)
    for host, (power, network) in enumerate(HOSTS):
        describe(bench, host, power=power or ",", network=network or ",")
    vm_ids = [bench.running(WORKING, host) for host in range(4)]
    failed: set[tuple[str, str]] = set()
    crashed, silent, dead = set[int](), set[int](), set[int]()
    for step, what, flag in steps:
        if step in {"fail", "repair"}:
            name = NAMES[what][flag]
            bench.ok(f"embedded.domain.{step}", what, name)
            failed = failed | {(what, name)} if step == "fail" else failed - {(what, name)}
        elif step == "down":
            bench.ok("embedded.host.down", what, flag)
            (crashed if flag else silent).add(int(what))
        else:
            bench.ok("embedded.host.up", what)
            crashed.discard(int(what))
            silent.discard(int(what))
        works = [
            [
                not names or any((kind, name) not in failed for name in names.split())
                for kind, names in zip(("power", "network"), HOSTS[host], strict=True)
            ]
            for host in range(4)
        ]
        dead |= {host for host in range(4) if host in crashed or not works[host][0]}
        bench.advance(START_S)
        for host, vm_id in enumerate(vm_ids):
            seen = all(works[host]) and host not in crashed | silent
            assert bench.cloud.guests.runs_on(vm_id, host) == (host not in dead)
            assert host_state(bench, host) == (MONITORED if seen else ERROR)
            expected = UNKNOWN if not seen else POWEROFF if host in dead else RUNNING
            # A VM that was found off stays off, whatever happens later.
            assert bench.state(vm_id) in {expected, POWEROFF} if host in dead else {expected}
    assert bench.charged() == dict.fromkeys(range(4), (100, 512, 1))
