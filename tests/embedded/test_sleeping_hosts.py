"""Hosts sleep and wake, and the energy of each is known exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock

from merkatd.embedded.model.settings import EmbeddedSettings, HostSize
from tests.embedded.support import Bench, xml
from tests.embedded.test_domains import describe, host_state
from tests.embedded.test_store import Kept
from tests.lengths import shorten

if TYPE_CHECKING:
    from pathlib import Path

MONITORED, ERROR, OFFLINE = 2, 3, 8
START_S = 60.0
IDLE, FULL = 80.0, 160.0
HOUR_S = 3600.0
BUSY = "CPU=2 VCPU=4 MEMORY=512 EMBEDDED=[MEMORY_USE=64]"


def power(bench: Bench, host: int) -> dict[str, Any]:
    """Return state, watts and energy of a host."""
    row: dict[str, Any] = bench.ok("embedded.host.power", [host])[str(host)]
    return row


def max_cpu(bench: Bench, host: int) -> str | None:
    """Return the capacity of a host as OpenNebula shows it."""
    return xml(bench.ok("one.host.info", host)).findtext("HOST_SHARE/MAX_CPU")


def test_a_host_sleeps_and_wakes_as_the_daemon_orders() -> None:
    """It is OFFLINE until it is enabled, and runs VMs again after its start."""
    bench = Bench()
    bench.ok("one.host.status", 0, 2)
    assert bench.ok("embedded.host.sleep", 0) == 0
    bench.advance(1000)
    assert (host_state(bench, 0), power(bench, 0)["state"]) == (OFFLINE, "asleep")
    assert bench.ok("embedded.host.wake", 0) == 0
    assert power(bench, 0)["state"] == "starting"
    bench.advance(START_S)
    assert (host_state(bench, 0), power(bench, 0)["state"]) == (OFFLINE, "on")
    bench.ok("one.host.status", 0, 0)
    assert (host_state(bench, 0), max_cpu(bench, 0)) == (MONITORED, "800")
    bench.running(BUSY, 0)


def test_a_host_that_is_enabled_too_early_is_in_error_until_it_is_up() -> None:
    """Its capacity reads 0 meanwhile, and operations on it fail."""
    bench = Bench()
    bench.ok("one.host.status", 0, 2)
    bench.ok("embedded.host.sleep", 0)
    bench.ok("one.host.status", 0, 0)
    assert (host_state(bench, 0), max_cpu(bench, 0)) == (ERROR, "0")
    fresh = bench.new()
    bench.ok("one.vm.deploy", fresh, 0)
    bench.advance(500)
    assert (host_state(bench, 0), bench.state(fresh)) == (ERROR, (3, 39))
    bench.ok("embedded.host.wake", 0)
    bench.advance(START_S - 1)
    assert (host_state(bench, 0), max_cpu(bench, 0)) == (ERROR, "0")
    bench.advance(1)
    assert (host_state(bench, 0), max_cpu(bench, 0)) == (MONITORED, "800")


def test_only_hosts_without_guests_sleep() -> None:
    """Neither with a running guest nor with an operation; a VM that is off does not count."""
    bench = Bench()
    vm_id = bench.running(BUSY, 0)
    refused = bench.refused("embedded.host.sleep", 0)
    why = f"host host000 must have no guests to sleep (it has those of VMs {vm_id})"
    assert refused == (2048, f"[embedded.host.sleep] {why}")
    bench.ok("one.vm.migrate", vm_id, 1, True)
    bench.advance(0.5)
    assert bench.refused("embedded.host.sleep", 1) == (
        2048,
        f"[embedded.host.sleep] {why.replace('000', '001')}",
    )
    bench.advance(5)
    bench.ok("embedded.host.sleep", 0)
    bench.ok("one.vm.action", "poweroff-hard", vm_id)
    bench.advance(5)
    bench.ok("embedded.host.sleep", 1)
    assert bench.refused("embedded.host.sleep", 99)[0] == 1024


@pytest.mark.parametrize("call", ["embedded.host.sleep", "embedded.host.wake"])
def test_a_failed_host_gets_no_orders(call: str) -> None:
    """Without power or network it neither sleeps nor wakes, and its sleep lasts."""
    bench = Bench()
    describe(bench, 0, power="feed3", network="rack3")
    bench.ok("embedded.host.sleep", 0)
    for kind, name, why in (
        ("power", "feed3", "host host000 has failed: it can neither sleep nor wake"),
        ("network", "rack3", "the network does not connect host host000"),
    ):
        bench.ok("embedded.domain.fail", kind, name)
        assert bench.refused(call, 0) == (2048, f"[{call}] {why}")
        bench.ok("embedded.domain.repair", kind, name)
        bench.advance(2 * START_S)
        assert power(bench, 0)["state"] == "asleep"
    assert host_state(bench, 0) == ERROR


def test_orders_twice_change_nothing() -> None:
    """A second wake does not delay the start, and a sleep ends it."""
    bench = Bench()
    for _ in range(2):
        bench.ok("embedded.host.sleep", 0)
    bench.ok("embedded.host.wake", 0)
    bench.advance(START_S - 1)
    bench.ok("embedded.host.wake", 0)
    bench.advance(1)
    assert power(bench, 0)["state"] == "on"
    bench.ok("embedded.host.sleep", 0)
    bench.ok("embedded.host.wake", 0)
    bench.advance(1)
    bench.ok("embedded.host.sleep", 0)
    bench.advance(START_S)
    assert power(bench, 0)["state"] == "asleep"
    bench.ok("embedded.host.wake", 0)
    bench.advance(10)
    bench.ok("embedded.host.sleep", 0)
    bench.ok("embedded.host.wake", 0)
    bench.advance(START_S - 1)
    assert power(bench, 0)["state"] == "starting"
    bench.advance(1)
    assert power(bench, 0)["state"] == "on"


def test_the_start_takes_the_time_in_the_settings() -> None:
    """None at all is possible too."""
    bench = Bench(1, EmbeddedSettings(host_start_s=0))
    bench.ok("embedded.host.sleep", 0)
    bench.ok("embedded.host.wake", 0)
    bench.advance(0)
    assert host_state(bench, 0) == MONITORED


def test_the_energy_follows_load_and_sleep() -> None:
    """An idle hour, an hour with half of the cores, an hour asleep, a start, a dead hour."""
    bench = Bench()
    bench.advance(HOUR_S)
    assert power(bench, 0) == {"state": "on", "watts": IDLE, "energy_wh": pytest.approx(IDLE)}
    vm_id = bench.running(BUSY, 0)
    begun = power(bench, 0)["energy_wh"]
    bench.advance(HOUR_S)
    assert power(bench, 0)["watts"] == pytest.approx(120)
    assert power(bench, 0)["energy_wh"] == pytest.approx(begun + 120)
    bench.cloud.guests.set_limits(vm_id, global_quota=100_000)
    bench.advance(HOUR_S)
    assert power(bench, 0)["energy_wh"] == pytest.approx(begun + 120 + 90)
    bench.ok("one.vm.action", "terminate-hard", vm_id)
    bench.advance(5)
    bench.ok("embedded.host.sleep", 0)
    slept = power(bench, 0)
    assert slept["watts"] == 0
    bench.advance(HOUR_S)
    assert power(bench, 0) == slept
    bench.ok("embedded.host.wake", 0)
    assert power(bench, 0)["watts"] == FULL
    bench.advance(HOUR_S)
    woke = power(bench, 0)["energy_wh"]
    started = (FULL * START_S + IDLE * (HOUR_S - START_S)) / HOUR_S
    assert woke == pytest.approx(slept["energy_wh"] + started)
    bench.ok("embedded.host.down", 0)
    bench.advance(HOUR_S)
    assert power(bench, 0) == {"state": "off", "watts": 0.0, "energy_wh": woke}


def test_monitoring_has_the_energy() -> None:
    """A sample has the energy of its own time."""
    bench = Bench()
    bench.advance(HOUR_S)
    host = xml(bench.ok("one.host.info", 0))
    assert float(host.findtext("MONITORING/MERKAT_ENERGY_WH") or 0) == pytest.approx(IDLE)


@pytest.mark.parametrize(
    ("idle", "full", "watts"),
    [
        ("50", "100", 50.0),
        ("nan", "100", IDLE),
        ("-1", "100", IDLE),
        ("1e308", "1e308", IDLE),
        ("much", "", IDLE),
        ("500", "100", IDLE),
        ("500", "500", 500.0),
    ],
)
def test_the_template_has_the_power(idle: str, full: str, watts: float) -> None:
    """A wrong value counts as missing, and a change applies from its moment on."""
    bench = Bench()
    bench.advance(HOUR_S)
    bench.ok("one.host.update", 0, f'MERKAT_IDLE_WATTS="{idle}"\nMERKAT_FULL_WATTS="{full}"', 1)
    bench.advance(HOUR_S)
    assert power(bench, 0)["energy_wh"] == pytest.approx(IDLE + watts)


def test_power_survives_a_restart(tmp_path: Path) -> None:
    """A host still sleeps, and the energy includes the time without the process."""
    first = Kept(tmp_path / "state")
    first.running(BUSY, 0)
    first.ok("embedded.host.sleep", 1)
    first.advance(HOUR_S)
    first.ok("embedded.host.sleep", 2)
    clock = Clock()
    clock.advance(first.clock.seconds() + HOUR_S)
    second = Kept(tmp_path / "state", clock)
    first.advance(HOUR_S)
    restored = second.ok("embedded.host.power")
    assert restored == {
        host: {**row, "energy_wh": pytest.approx(row["energy_wh"])}
        for host, row in first.ok("embedded.host.power").items()
    }
    assert [restored[host]["state"] for host in "012"] == ["on", "asleep", "asleep"]
    first.ok("one.host.delete", 2)
    assert set(first.ok("embedded.host.power")) == {"0", "1"}


STEPS = st.lists(
    st.tuples(
        st.floats(0.1, 5000),
        st.sampled_from(["quota", "off", "resume", "sleep", "wake", "down", "up"]),
        st.integers(1000, 200_000),
    ),
    max_size=15,
)


@settings(max_examples=shorten(150, 50), deadline=None)
@given(STEPS)
def test_the_energy_is_that_of_time_and_work(steps: list[tuple[float, str, int]]) -> None:
    """Whatever happens: the idle power of the time, and the rest for each second of a core."""
    bench = Bench(1, size=HostSize(200, 8192))
    vm_id = bench.running("CPU=1 VCPU=2 MEMORY=512 EMBEDDED=[MEMORY_USE=64]", 0)
    # The guest has run since it booted.
    energy_j = power(bench, 0)["energy_wh"] * HOUR_S
    for seconds, step, quota in steps:
        guest = bench.cloud.guests.guest(vm_id)
        assert guest is not None
        if step == "quota" and guest.host == 0:
            bench.cloud.guests.set_limits(vm_id, global_quota=quota)
        elif step in {"off", "resume"}:
            bench.raw("one.vm.action", {"off": "poweroff-hard"}.get(step, step), vm_id)
        elif step not in {"quota", "off", "resume"}:
            bench.raw(f"embedded.host.{step}", 0)
        left = seconds
        while left > 0:
            # Small parts: states change between them at most once.
            part = min(left, 0.25) if left > seconds - 70 else left
            row = power(bench, 0)
            before = guest.cpu_s
            bench.advance(part)
            bench.cloud.guests.guest(vm_id)
            worked = guest.cpu_s - before if guest.cpu_s >= before else guest.cpu_s
            idle = {"on": IDLE, "starting": FULL}.get(row["state"], 0.0)
            energy_j += idle * part + (FULL - IDLE) / 2 * worked
            left -= part
    gap_j = 0.25 * FULL * (len(steps) + 1)
    assert power(bench, 0)["energy_wh"] * HOUR_S == pytest.approx(energy_j, abs=gap_j)
