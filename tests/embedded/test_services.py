"""Guests that serve requests: response times, backlogs, and the CPU that they use."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock

from merkatd.embedded.model.settings import EmbeddedSettings, HostSize
from merkatd.policies.service_queue import LONGEST_S, MOST_LOAD
from tests.embedded.guests import few_events, is_conserved, job, rates, seen, service, small, start
from tests.embedded.support import Bench
from tests.embedded.test_domains import describe
from tests.embedded.test_store import Kept
from tests.lengths import shorten

if TYPE_CHECKING:
    from pathlib import Path

HOUR_S = 3600.0


@settings(max_examples=shorten(200, 60), deadline=None)
@given(
    load=st.floats(0.0, 0.98),
    work=st.floats(0.001, 10.0),
    cores=st.floats(0.05, 2.0),
    hours=st.floats(0.01, 30.0),
)
def test_the_mean_response_follows_the_formula(
    load: float, work: float, cores: float, hours: float
) -> None:
    """With a constant share: s / (1 - r), all requests served, and only the needed CPU used."""
    bench = Bench(1, EmbeddedSettings(monitor_interval_s=0), HostSize(400, 8192))
    arrivals = load * cores / work
    (vm_id,) = start(bench, service(repr(arrivals), repr(work), 2))
    quota = max(1000, round(cores * 100_000))
    bench.cloud.guests.set_limits(vm_id, global_quota=quota)
    time_s = work / (quota / 100_000)
    mean_s = time_s / (1 - arrivals * time_s)
    before = seen(bench, vm_id)
    bench.advance(hours * HOUR_S)
    after = seen(bench, vm_id)
    assert after["response_s"] == pytest.approx(mean_s)
    assert after["p95_s"] == pytest.approx(mean_s * math.log(20))
    assert after["throughput_per_s"] == after["arrivals_per_s"] == pytest.approx(arrivals)
    came = after["arrived"] - before["arrived"]
    assert came == pytest.approx(arrivals * hours * HOUR_S, rel=1e-6)
    spent_s = after["response_sum_s"] - before["response_sum_s"]
    assert spent_s == pytest.approx(came * mean_s, rel=1e-6)
    assert after["waiting"] == 0
    assert is_conserved(after)
    assert rates(bench, [vm_id], 100) == pytest.approx([arrivals * work], rel=1e-6, abs=1e-9)


def test_an_overload_grows_a_backlog_and_drains_it() -> None:
    """The example of the note; then twice the cores, and the exact time until the end."""
    bench = small(4)
    (vm_id,) = start(bench, service(10, 0.1, 2))
    before = seen(bench, vm_id)
    assert (before["waiting"], before["response_s"]) == (0, pytest.approx(0.1))
    bench.cloud.guests.set_limits(vm_id, global_quota=50_000)
    bench.advance(60)
    full = seen(bench, vm_id)
    assert full["waiting"] == pytest.approx(300)
    assert full["response_s"] == pytest.approx(80)
    assert full["p95_s"] == pytest.approx(60 + 20 * math.log(20))
    assert full["throughput_per_s"] == pytest.approx(5)
    # While it grows, a request waits for 30 s on average besides the 20 s of the formula.
    spent_s = full["response_sum_s"] - before["response_sum_s"]
    assert spent_s == pytest.approx(600 * (20 + 30))
    bench.cloud.guests.set_limits(vm_id, global_quota=200_000)
    assert seen(bench, vm_id)["throughput_per_s"] == pytest.approx(20)
    bench.advance(29.9)
    assert seen(bench, vm_id)["waiting"] == pytest.approx(1)
    bench.advance(0.2)
    drained = seen(bench, vm_id)
    assert (drained["waiting"], drained["response_s"]) == (0, pytest.approx(0.1))
    assert is_conserved(drained)
    assert rates(bench, [vm_id]) == pytest.approx([1.0])


def test_a_service_leaves_its_rest_to_other_guests() -> None:
    """It uses 0.3 of a core while its share is half of it; the response follows the share."""
    bench = small(1)
    busy, vm_id = start(bench, job(0), service(3, 0.1))
    assert rates(bench, [busy, vm_id]) == pytest.approx([0.7, 0.3])
    values = seen(bench, vm_id)
    assert values["cores"] == pytest.approx(0.5)
    assert values["response_s"] == pytest.approx(0.2 / (1 - 0.6))
    bench.ok("one.vm.update", vm_id, 'EMBEDDED=[ARRIVALS="8", REQUEST_WORK="0.1"]', 1)
    bench.advance(10)
    assert rates(bench, [busy, vm_id]) == pytest.approx([0.5, 0.5])
    assert seen(bench, vm_id)["waiting"] == pytest.approx(60)


def test_the_end_of_a_backlog_frees_the_cores_at_once() -> None:
    """30 waiting requests are served by 3 a second: half of a core for 10 s, then a fifth."""
    bench = small(1)
    busy, vm_id = start(bench, job(0), service(8, 0.1))
    bench.advance(10)
    bench.ok("one.vm.update", vm_id, 'EMBEDDED=[ARRIVALS="2", REQUEST_WORK="0.1"]', 1)
    assert rates(bench, [busy, vm_id], 20) == pytest.approx([0.65, 0.35])


def test_pinned_services_have_a_share_too() -> None:
    """Two share a core, so each gets half of it, whatever it uses."""
    bench = small(2)
    first, second = start(bench, service(1, 0.1), job(0))
    for vm_id in (first, second):
        bench.cloud.guests.set_limits(vm_id, pins=[[0]])
    assert rates(bench, [first, second]) == pytest.approx([0.1, 0.9])
    assert seen(bench, first)["cores"] == pytest.approx(0.5)


def test_a_starved_service_never_answers() -> None:
    """The longest time is a day: a value that XML-RPC carries."""
    bench = small(1)
    (vm_id,) = start(bench, service(1000, 1000))
    bench.advance(HOUR_S)
    values = seen(bench, vm_id)
    assert (values["response_s"], values["p95_s"]) == (LONGEST_S, LONGEST_S)
    assert values["waiting"] == pytest.approx(1000 * HOUR_S, rel=1e-2)
    assert values["response_sum_s"] <= values["arrived"] * LONGEST_S


def test_swapping_slows_requests_down() -> None:
    """At half of its memory it needs twice the CPU for its requests."""
    bench = small(2)
    (vm_id,) = start(bench, service(2, 0.1, 1, "0"))
    bench.ok(
        "one.vm.update", vm_id, 'EMBEDDED=[ARRIVALS="2", REQUEST_WORK="0.1", MEMORY_USE="400"]', 1
    )
    assert rates(bench, [vm_id]) == pytest.approx([0.2])
    bench.cloud.guests.set_limits(vm_id, memory_mib=200)
    bench.advance(60)
    assert rates(bench, [vm_id]) == pytest.approx([0.4])
    values = seen(bench, vm_id)
    assert values["response_s"] == pytest.approx(0.2 / (1 - 0.4))
    assert is_conserved(values)


STEPS = st.lists(
    st.tuples(
        st.floats(0.01, 4000),
        st.sampled_from(["quota", "memory", "arrivals", "reboot", "off", "resume", "migrate"]),
        st.integers(1000, 200_000),
    ),
    max_size=10,
)


def disturb(bench: Bench, step: str, value: int) -> None:
    """Change the guest of VM 0, its limits or its place."""
    guest = bench.cloud.guests.guest(0)
    assert guest is not None
    if step == "quota" and guest.host >= 0:
        bench.cloud.guests.set_limits(0, global_quota=value)
    elif step == "memory" and guest.host >= 0:
        bench.cloud.guests.set_limits(0, memory_mib=1 + value % 512)
    elif step == "arrivals":
        text = f'EMBEDDED=[ARRIVALS="{value % 40}", REQUEST_WORK="0.05", MEMORY_USE=300]'
        bench.ok("one.vm.update", 0, text, 1)
    elif step == "migrate":
        bench.raw("one.vm.migrate", 0, 1 - max(guest.host, 0), True)
    else:
        action = {"reboot": "reboot-hard", "off": "poweroff-hard"}.get(step, step)
        bench.raw("one.vm.action", action, 0)


@settings(max_examples=shorten(150, 50), deadline=None)
@example([(1.0, "quota", 1000), (0.01, "off", 1000)], False)
@given(STEPS, st.booleans())
def test_no_request_disappears(steps: list[tuple[float, str, int]], wave: bool) -> None:
    """Whatever happens: arrived = served + waiting + lost, and work pays for what is served."""
    watched, alone = small(2), small(2)
    text = service("1:30:0" if wave else "15", 0.05, 2)
    for bench in (watched, alone):
        start(bench, text, job(0))
        bench.ok("one.host.allocate", "other", "kvm", "kvm", 0)
    for seconds, step, value in steps:
        for bench in (watched, alone):
            disturb(bench, step, value)
        for _ in range(5):
            watched.advance(seconds / 5)
            assert is_conserved(seen(watched, 0))
        alone.advance(seconds)
    for bench in (watched, alone):
        # Sums of times differ by a rounding error: an operation may end just now in one of them.
        bench.advance(0.013_700_7)
    first, other = seen(watched, 0), seen(alone, 0)
    assert is_conserved(other)
    for bench, values in ((watched, first), (alone, other)):
        guest = bench.cloud.guests.guest(0)
        assert guest is not None
        assert guest.done == pytest.approx(values["served"] * 0.05, rel=1e-6, abs=1e-6)
        assert values["response_sum_s"] >= 0
    for name in ("arrived", "served", "waiting", "lost", "response_sum_s"):
        assert first[name] == pytest.approx(other[name], rel=1e-3, abs=1e-3), name


def test_a_wake_up_does_not_repeat() -> None:
    """Here the end of a backlog was planned a rounding error before the division that ends it."""
    bench = Bench(1, EmbeddedSettings(monitor_interval_s=0), HostSize(200, 8192))
    start(bench, service("1:30:0", 10, 2), job(0))
    bench.ok("one.host.allocate", "other", "kvm", "kvm", 0)
    for step, value, seconds, times in (
        ("migrate", 0, 2800.5993488747617, 1),
        ("memory", 179613, 2.860253154624193, 1),
        ("migrate", 0, 1.1260615528432238, 1),
        ("arrivals", 108872, 2192.4031451067426, 5),
        ("migrate", 0, 3661.620799953644, 5),
    ):
        disturb(bench, step, value)
        for _ in range(times):
            with few_events(bench, 1000):
                bench.advance(seconds / 5)
            assert is_conserved(seen(bench, 0))


def test_no_request_arrives_without_power_or_network() -> None:
    """A disconnected service serves its backlog only; one that is off does nothing."""
    bench = small(1)
    describe(bench, 0, network="rack1", power="feed3")
    (vm_id,) = start(bench, service(20, 0.1))
    bench.advance(100)
    waiting = seen(bench, vm_id)["waiting"]
    bench.ok("embedded.domain.fail", "network", "rack1")
    before = seen(bench, vm_id)
    assert (before["arrivals_per_s"], before["running"]) == (0, True)
    bench.advance(10)
    values = seen(bench, vm_id)
    assert values["arrived"] == before["arrived"]
    assert values["waiting"] == pytest.approx(waiting - 100)
    bench.ok("embedded.domain.fail", "power", "feed3")
    values = seen(bench, vm_id)
    assert (values["waiting"], values["running"]) == (0, False)
    assert values["lost"] == pytest.approx(waiting - 100)
    bench.advance(100)
    assert seen(bench, vm_id) == values


@pytest.mark.parametrize("action", ["poweroff-hard", "reboot-hard"])
def test_a_reboot_loses_waiting_requests_and_a_suspension_none(action: str) -> None:
    """They are in the guest's memory."""
    bench = small(1)
    (vm_id,) = start(bench, service(20, 0.1))
    bench.advance(100)
    bench.ok("one.vm.action", "suspend", vm_id)
    bench.advance(1000)
    values = seen(bench, vm_id)
    assert (values["arrivals_per_s"], values["lost"]) == (0, 0)
    assert values["waiting"] == pytest.approx(10 * 100, rel=1e-2)
    bench.ok("one.vm.action", "resume", vm_id)
    bench.advance(5)
    bench.ok("one.vm.action", action, vm_id)
    bench.advance(2)
    assert seen(bench, vm_id)["lost"] == pytest.approx(10 * 104, rel=1e-2)


def test_a_service_survives_a_restart(tmp_path: Path) -> None:
    """Its requests go on while the process is away."""
    first = Kept(tmp_path / "state")
    vm_id = first.running(service("5:30:0", 0.1), 0)
    first.advance(2 * HOUR_S)
    clock = Clock()
    clock.advance(first.clock.seconds() + 5 * HOUR_S)
    second = Kept(tmp_path / "state", clock)
    first.advance(5 * HOUR_S)
    assert seen(second, vm_id) == pytest.approx(seen(first, vm_id))
    assert seen(second, vm_id)["waiting"] > 0
    assert is_conserved(seen(second, vm_id))


def test_the_formula_counts_a_load_up_to_its_bound() -> None:
    """At the load 1 the response is finite, and it never falls as the load rises."""
    bench = small(1)
    (vm_id,) = start(bench, service(1, 0.1))
    before = 0.0
    for arrivals in (5, 9.8, 9.9, 9.99, 10, 10.5):
        bench.ok("one.vm.update", vm_id, f'EMBEDDED=[ARRIVALS="{arrivals}", REQUEST_WORK=0.1]', 1)
        response_s = seen(bench, vm_id)["response_s"]
        assert before <= response_s <= 0.1 / (1 - MOST_LOAD) + 1e-9
        before = response_s


@pytest.mark.parametrize("every_s", [0.3, 1.7, 4.0, 4.9, 7.0])
def test_looks_change_nothing_while_a_balloon_moves(every_s: float) -> None:
    """A look is no change, however many there are: the need is computed at the same moments."""
    watched, alone = small(2), small(2)
    for bench in (watched, alone):
        text = 'EMBEDDED=[ARRIVALS="2", REQUEST_WORK="0.1", MEMORY_USE="400"]'
        start(bench, service(2, 0.1, 1), job(0))
        bench.ok("one.vm.update", 0, text, 1)
        bench.advance(1)
        bench.cloud.guests.set_limits(0, memory_mib=100)
    for _ in range(int(60 / every_s)):
        watched.advance(every_s)
        seen(watched, 0)
    now_s = watched.clock.seconds()
    alone.advance(now_s - alone.clock.seconds())
    first, other = seen(watched, 0), seen(alone, 0)
    assert first == pytest.approx(other, rel=1e-6)
    usage = [bench.cloud.guests.read([0, 1]) for bench in (watched, alone)]
    for vm_id in (0, 1):
        assert usage[0][vm_id].cpu_s == pytest.approx(usage[1][vm_id].cpu_s, rel=1e-6)
    assert rates(watched, [0]) == pytest.approx(rates(alone, [0]), rel=1e-6)
