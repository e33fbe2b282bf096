"""Pins on Xen hosts: set and read by a command there, whoever set them."""

import tracemalloc
from pathlib import Path

import pytest

from merkatd.hypervisor.libvirt import LibvirtSettings
from merkatd.scheduler.base.ports import FullSize, ReleaseResult
from tests.hypervisor.bed import Bed, at_once, pin
from tests.hypervisor.double import DoubleHost
from tests.hypervisor.xl import FakeXl


@pytest.fixture
def xl(tmp_path: Path) -> FakeXl:
    """The command."""
    return FakeXl(tmp_path)


def pinning(xl: FakeXl, vms: int = 1) -> Bed:
    """A Xen host of four cores on which virtual CPUs are pinned, read once."""
    host = DoubleHost("xen")
    for vm in range(vms):
        host.start(vm, vcpus=2)
        xl.starts(f"one-{vm}")
    settings = LibvirtSettings(pin_hosts=frozenset({"*"}), check_every=1, xen_command=xl.command)
    bed = Bed({0: host}, settings)
    assert bed.read().in_force.pins == {}
    xl.calls()
    return bed


def test_pins_are_set_by_the_command(xl: FakeXl) -> None:
    """With the words of the domain, for each virtual CPU that differs; and they are read back."""
    bed = pinning(xl)
    assert bed.apply(pin(0, ((2, 3), (1,)))) == {}
    assert xl.calls() == ["vcpu-pin one-0 0 2,3", "vcpu-pin one-0 1 1"]
    assert bed.read().in_force.pins == {0: ((2, 3), (1,))}
    assert xl.calls() == ["vcpu-list"]
    assert bed.apply(pin(0, ((2, 3), (0,)))) == {}
    assert xl.calls() == ["vcpu-pin one-0 1 0"]
    assert bed.apply(pin(0, ())) == {}
    assert xl.pins("one-0") == ["all", "all"]
    assert bed.read().in_force.pins == {}
    assert bed.adapter.reach().drift == 0


def test_all_guests_of_a_host_are_listed_at_once(xl: FakeXl) -> None:
    """However many are due to be looked at."""
    bed = pinning(xl, vms=5)
    bed.read()
    assert xl.calls() == ["vcpu-list"]


@pytest.mark.parametrize(
    ("listed", "pins"),
    [
        (("0-2", "1"), ((0, 1, 2), (1,))),
        (("0,2-3", "all"), ((0, 2, 3), ())),
        (("any cpu", "3"), ((), (3,))),
        (("all", "all"), None),
    ],
)
def test_what_somebody_else_pins_is_seen(
    xl: FakeXl, listed: tuple[str, str], pins: tuple[tuple[int, ...], ...] | None
) -> None:
    """As drift, once; in each of the ways in which the command writes it."""
    bed = pinning(xl)
    xl.pin("one-0", *listed)
    for _ in range(2):
        assert bed.read().in_force.pins.get(0) == pins
    assert bed.adapter.reach().drift == (pins is not None)


def test_what_the_command_says_against_it_is_told(xl: FakeXl) -> None:
    """Of a pin that it refuses, and of a list: then nothing is said to have drifted."""
    bed = pinning(xl)
    assert bed.apply(pin(0, ((2,), (1,)))) == {}
    xl.breaks("no such domain")
    step = pin(0, ((0,), (0,)))
    assert "no such domain" in bed.apply(step)[step.id]
    assert bed.read().vm_id.tolist() == [0]
    assert bed.adapter.reach().drift == 0
    xl.breaks("")
    assert bed.read().in_force.pins == {0: ((2,), (1,))}
    assert bed.adapter.reach().drift == 0


def test_a_command_that_fails_is_run_once_a_reading(xl: FakeXl) -> None:
    """Nobody waits for it as often as there are guests."""
    bed = pinning(xl, vms=5)
    xl.breaks("no route to host")
    bed.read()
    assert xl.calls() == ["vcpu-list"]


def test_release_frees_what_anybody_pinned(xl: FakeXl) -> None:
    """And says so where it can't."""
    bed = pinning(xl)
    xl.pin("one-0", "1", "2")
    whole = FullSize(vm=0, host=0, cpu_units=150.0, memory_mib=1024, vcpus=2)
    xl.breaks("connection refused")
    assert "connection refused" in at_once(bed.adapter.release([whole]))[0].problem
    xl.breaks("")
    did = at_once(bed.adapter.release([whole]))
    assert did == {
        0: ReleaseResult("no CPU quota and OpenNebula's CPU weight, full memory, no pins")
    }
    assert xl.pins("one-0") == ["all", "all"]


@pytest.mark.parametrize("listed", ["0-9999999", "0-99999999999", "4096", "7-" + "9" * 5000])
def test_a_core_that_no_host_has_is_not_believed(xl: FakeXl, listed: str) -> None:
    """A range of them would fill the daemon's memory. The pins count as not read."""
    bed = pinning(xl)
    xl.pin("one-0", listed, "all")
    assert bed.read().in_force.pins == {}
    assert bed.adapter.reach().drift == 0


def test_an_answer_without_end_is_cut(tmp_path: Path) -> None:
    """Together with the command that gives it."""
    script = tmp_path / "xl"
    script.write_text("#!/bin/sh\necho $$ > pid\nexec yes 'one-0 7 0 0 -b- 1.0 0-3 / all'\n")
    script.write_text(script.read_text().replace("> pid", f"> {tmp_path}/pid"))
    script.chmod(0o755)
    host = DoubleHost("xen")
    host.start(0)
    settings = LibvirtSettings(pin_hosts=frozenset({"*"}), check_every=1, xen_command=str(script))
    tracemalloc.start()
    try:
        assert Bed({0: host}, settings).read().in_force.pins == {}
        assert tracemalloc.get_traced_memory()[1] < 64 * 1024 * 1024
    finally:
        tracemalloc.stop()
    assert not Path(f"/proc/{int((tmp_path / 'pid').read_text())}").exists()


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    """Before the host would count as away."""
    script = tmp_path / "xl"
    script.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    script.chmod(0o755)
    host = DoubleHost("xen")
    host.start(0)
    settings = LibvirtSettings(
        pin_hosts=frozenset({"*"}), check_every=1, xen_command=str(script), call_limit_s=1.0
    )
    bed = Bed({0: host}, settings)
    assert bed.read().in_force.pins == {}
    assert bed.adapter.reach().away == {}
    assert not Path(f"/proc/{int((tmp_path / 'pid').read_text())}").exists()
