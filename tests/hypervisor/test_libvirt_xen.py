"""Pins on Xen hosts are set and read by a command, whichever program set them."""

import tracemalloc
from pathlib import Path

import pytest

from merkatd.hypervisor.libvirt import LibvirtSettings
from merkatd.scheduler.base.ports import FullSize, ReleaseResult
from tests.hypervisor.bed import Bed, pin, run_now
from tests.hypervisor.double import DoubleHost
from tests.hypervisor.xl import FakeXl


@pytest.fixture
def xl(tmp_path: Path) -> FakeXl:
    """Return the fake command."""
    return FakeXl(tmp_path)


def pinning(xl: FakeXl, vms: int = 1) -> Bed:
    """Return a Xen host of four cores with pinning, read once."""
    host = DoubleHost("xen")
    for vm in range(vms):
        host.start(vm, vcpus=2)
        xl.start_domain(f"one-{vm}")
    settings = LibvirtSettings(pin_hosts=frozenset({"*"}), check_every=1, xen_command=xl.command)
    bed = Bed({0: host}, settings)
    assert bed.read().in_force.pins == {}
    xl.calls()
    return bed


def test_pins_are_set_by_the_command(xl: FakeXl) -> None:
    """Each changed virtual CPU needs one call with the domain's name, and pins are read back."""
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


def test_all_guests_of_a_host_are_listed_in_one_call(xl: FakeXl) -> None:
    """One listing covers all guests that are due."""
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
def test_pins_by_other_programs_are_detected(
    xl: FakeXl, listed: tuple[str, str], pins: tuple[tuple[int, ...], ...] | None
) -> None:
    """They count as drift once, in each notation of the command."""
    bed = pinning(xl)
    xl.pin("one-0", *listed)
    for _ in range(2):
        assert bed.read().in_force.pins.get(0) == pins
    assert bed.adapter.reach().drift == (pins is not None)


def test_errors_of_the_command_are_reported(xl: FakeXl) -> None:
    """A refused pin has the command's text, and a failed listing is not drift."""
    bed = pinning(xl)
    assert bed.apply(pin(0, ((2,), (1,)))) == {}
    xl.fail_with("no such domain")
    step = pin(0, ((0,), (0,)))
    assert "no such domain" in bed.apply(step)[step.id]
    assert bed.read().vm_id.tolist() == [0]
    assert bed.adapter.reach().drift == 0
    xl.fail_with("")
    assert bed.read().in_force.pins == {0: ((2,), (1,))}
    assert bed.adapter.reach().drift == 0


def test_a_failing_command_runs_once_a_reading(xl: FakeXl) -> None:
    """The command is not repeated for each guest."""
    bed = pinning(xl, vms=5)
    xl.fail_with("no route to host")
    bed.read()
    assert xl.calls() == ["vcpu-list"]


def test_release_removes_all_pins(xl: FakeXl) -> None:
    """If the command fails, the result says so."""
    bed = pinning(xl)
    xl.pin("one-0", "1", "2")
    full_size = FullSize(vm=0, host=0, cpu_units=150.0, memory_mib=1024, vcpus=2)
    xl.fail_with("connection refused")
    assert "connection refused" in run_now(bed.adapter.release([full_size]))[0].problem
    xl.fail_with("")
    did = run_now(bed.adapter.release([full_size]))
    assert did == {
        0: ReleaseResult("no CPU quota and OpenNebula's CPU weight, full memory, no pins")
    }
    assert xl.pins("one-0") == ["all", "all"]


@pytest.mark.parametrize("listed", ["0-9999999", "0-99999999999", "4096", "7-" + "9" * 5000])
def test_an_impossible_core_number_is_rejected(xl: FakeXl, listed: str) -> None:
    """A huge range would fill the daemon's memory, so such pins count as unread."""
    bed = pinning(xl)
    xl.pin("one-0", listed, "all")
    assert bed.read().in_force.pins == {}
    assert bed.adapter.reach().drift == 0


def test_an_endless_answer_is_cut(tmp_path: Path) -> None:
    """The command that writes it is ended too."""
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


def test_a_hanging_command_is_ended(tmp_path: Path) -> None:
    """It ends before the host would count as away."""
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
