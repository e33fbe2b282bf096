"""Work on all VMs runs beside the reactor, which answers requests meanwhile."""

from collections import Counter
from typing import Any

import pytest

from merkatd.hypervisor import EmbeddedHypervisors, simulated_hosts
from merkatd.hypervisor.libvirt import libvirt_adapter
from merkatd.scheduler.execution import execute
from merkatd.scheduler.execution.execute import BootRetries
from merkatd.scheduler.observation.observed import RecentUse
from merkatd.scheduler.phases import act
from tests.hypervisor.bed import Bed
from tests.hypervisor.double import DoubleHost
from tests.scheduler.beside import Beside
from tests.scheduler.frontend import Frontend


class Watch:
    """Count function calls by name and by whether they ran beside the reactor."""

    def __init__(self, executor: Beside, patch: pytest.MonkeyPatch) -> None:
        self.calls: Counter[tuple[str, bool]] = Counter()
        self._executor, self._patch = executor, patch

    def of(self, where: Any, name: str) -> None:
        """Count the calls of this function too."""
        real = getattr(where, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            self.calls[name, self._executor.busy] += 1
            return real(*arguments, **named)

        self._patch.setattr(where, name, counted)

    def on_the_reactor(self) -> list[str]:
        """Return the names of the functions that ran on the reactor's thread."""
        return [name for name, beside in self.calls if not beside]


def test_a_period_processes_all_vms_beside_the_reactor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Usage columns, recent use, reasons, steps by VM, and their results."""
    beside = Beside()
    watch = Watch(beside, monkeypatch)
    functions: list[tuple[object, str]] = [
        *((simulated_hosts, name) for name in ("_use", "_by_vm", "_asked")),
        *((RecentUse, "met"), (execute, "with_messages"), (act, "_acted")),
    ]
    for where, name in functions:
        watch.of(where, name)

    async def failed(*_: object) -> BootRetries:
        return BootRetries(messages={0: "it failed to start"})

    monkeypatch.setattr(execute, "retry_failed_boots", failed)
    frontend = Frontend(hosts=1, executor=beside)
    frontend.world_settings["hypervisors"] = EmbeddedHypervisors(frontend.client, executor=beside)
    frontend.start_daemon()
    for _ in range(3):
        frontend.vm()
    frontend.periods(3)
    assert watch.on_the_reactor() == []
    assert {name for name, _ in watch.calls} == {name for _, name in functions}


def test_rows_of_libvirt_hosts_become_columns_beside_the_reactor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The grouping by host runs beside the reactor too."""
    beside = Beside()
    watch = Watch(beside, monkeypatch)
    watch.of(libvirt_adapter, "use_of")
    watch.of(libvirt_adapter, "_grouped")
    host = DoubleHost("qemu")
    for vm in range(3):
        host.start(vm)
    bed = Bed({0: host}, executor=beside)
    assert bed.read().vm_id.tolist() == [0, 1, 2]
    assert watch.calls == {("use_of", True): 1, ("_grouped", True): 1}
