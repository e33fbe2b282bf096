"""Small hosts with guests for the tests."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from merkatd.embedded.model.settings import EmbeddedSettings, Guesting, HostSize
from tests.embedded.support import Bench

if TYPE_CHECKING:
    from collections.abc import Iterator

START_S = 1.09
"""Seconds from the answer to a deployment until RUNNING."""


def small(cores: int = 2, **guests: float) -> Bench:
    """Return a cloud with one host of `cores` cores."""
    return Bench(1, EmbeddedSettings(guests=Guesting(**guests)), HostSize(cores * 100, 8192))  # type: ignore[arg-type]  # all values are floats


def start(bench: Bench, *templates: str) -> list[int]:
    """Return VMs that start to run at this moment."""
    vm_ids = [bench.new(template) for template in templates]
    for vm_id in vm_ids:
        bench.ok("one.vm.deploy", vm_id, 0)
    bench.advance(START_S)
    assert {bench.state(vm_id) for vm_id in vm_ids} == {(3, 3)}
    return vm_ids


def rates(bench: Bench, vm_ids: list[int], seconds: float = 10) -> list[float]:
    """Return the cores that each guest really gets over a time."""
    before = bench.cloud.guests.read(vm_ids)
    bench.advance(seconds)
    after = bench.cloud.guests.read(vm_ids)
    return [(after[vm_id].cpu_s - before[vm_id].cpu_s) / seconds for vm_id in vm_ids]


def job(work: float, more: str = "") -> str:
    """Return the template of a VM with work to do."""
    return f"CPU=1 VCPU=1 MEMORY=1024 EMBEDDED=[WORK={work}, MEMORY_USE=512{more}]"


def service(arrivals: object, work: object, vcpus: int = 1, more: str = "") -> str:
    """Return the template of a VM that serves requests."""
    inner = f'ARRIVALS="{arrivals}", REQUEST_WORK="{work}", MEMORY_USE=64{more}'
    return f"CPU={vcpus} VCPU={vcpus} MEMORY=512 EMBEDDED=[{inner}]"


def seen(bench: Bench, vm_id: int) -> dict[str, Any]:
    """Return what a monitor reads."""
    values: dict[str, Any] = bench.ok("embedded.guest.service", vm_id)
    return values


def is_conserved(values: dict[str, Any]) -> bool:
    """Return whether each request that has arrived was served or lost, or waits."""
    whole = values["served"] + values["waiting"] + values["lost"]
    return math.isclose(values["arrived"], whole, rel_tol=1e-9, abs_tol=1e-6)


@contextmanager
def few_events(bench: Bench, most: int) -> Iterator[None]:
    """Let at most so many events be planned inside."""
    agenda, planned = bench.cloud.world.agenda, 0
    original = agenda.at

    def counted(due_s: float, event: Any) -> None:
        nonlocal planned
        planned += 1
        assert planned <= most, "too many events"
        original(due_s, event)

    agenda.at = counted  # type: ignore[method-assign]  # it counts
    yield
    agenda.at = original  # type: ignore[method-assign]  # as before
