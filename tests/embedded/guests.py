"""Small hosts with guests for the tests."""

from __future__ import annotations

from merkatd.embedded.model.settings import EmbeddedSettings, Guesting, HostSize
from tests.embedded.support import Bench

START_S = 1.09
"""From the deployment's answer to RUNNING."""


def small(cores: int = 2, **guests: float) -> Bench:
    """One host of so many cores."""
    return Bench(1, EmbeddedSettings(guests=Guesting(**guests)), HostSize(cores * 100, 8192))  # type: ignore[arg-type]  # floats all


def start(bench: Bench, *templates: str) -> list[int]:
    """VMs that began to run at this very moment."""
    vm_ids = [bench.new(template) for template in templates]
    for vm_id in vm_ids:
        bench.ok("one.vm.deploy", vm_id, 0)
    bench.advance(START_S)
    assert {bench.state(vm_id) for vm_id in vm_ids} == {(3, 3)}
    return vm_ids


def rates(bench: Bench, vm_ids: list[int], seconds: float = 10) -> list[float]:
    """Cores that each guest really gets over some time."""
    before = bench.cloud.guests.read(vm_ids)
    bench.advance(seconds)
    after = bench.cloud.guests.read(vm_ids)
    return [(after[vm_id].cpu_s - before[vm_id].cpu_s) / seconds for vm_id in vm_ids]


def job(work: float, more: str = "") -> str:
    """The template of a VM with something to do."""
    return f"CPU=1 VCPU=1 MEMORY=1024 EMBEDDED=[WORK={work}, MEMORY_USE=512{more}]"
