"""A cloud in virtual time for the tests, called as by a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from lxml import etree
from twisted.internet.task import Clock

from merkatd.embedded.cloud import EmbeddedCloud
from merkatd.embedded.memory_transport import MemoryTransport
from merkatd.embedded.model.settings import HostSize
from tests.contract.ways import DONE, HOLD, OFF, PENDING, STOPPED, SUSPENDED, UNDEPLOYED

if TYPE_CHECKING:
    from merkatd.embedded.model.records import Vm
    from merkatd.embedded.model.settings import EmbeddedSettings

ADMIN = "oneadmin:secret"
SMALL = "CPU=1\nMEMORY=512"


class Bench:
    """A cloud with a clock that tests advance, and calls that return at once."""

    def __init__(
        self,
        hosts: int = 3,
        settings: EmbeddedSettings | None = None,
        size: HostSize | None = None,
        seed: int = 7,
    ) -> None:
        self.clock = Clock()
        self.cloud = EmbeddedCloud(
            self.clock, np.random.default_rng(seed), settings, size or HostSize()
        )
        self.cloud.found("secret")
        self.cloud.add_hosts(hosts)
        self.transport = MemoryTransport(self.cloud)

    def raw(self, method: str, *arguments: Any, session: str = ADMIN) -> list[Any]:
        """Return the whole answer to a call."""
        waiting = self.transport.call(method, session, *arguments)
        try:
            waiting.send(None)
        except StopIteration as done:
            answer: list[Any] = done.value
            return answer
        waiting.close()
        raise AssertionError("no answer yet")

    def ok(self, method: str, *arguments: Any, session: str = ADMIN) -> Any:
        """Return the value of a call that must succeed."""
        answer = self.raw(method, *arguments, session=session)
        assert answer[0] is True, answer
        assert answer[2] == 0
        return answer[1]

    def refused(self, method: str, *arguments: Any, session: str = ADMIN) -> tuple[int, str]:
        """Return code and text of a call that must fail."""
        answer = self.raw(method, *arguments, session=session)
        assert answer[0] is False, answer
        assert len(answer) == 5
        assert answer[4] == -1
        return int(answer[2]), str(answer[1])

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(seconds)

    def vm(self, vm_id: int) -> Vm:
        """Return the record of a VM."""
        return self.cloud.world.vms.rows[vm_id]

    def state(self, vm_id: int) -> tuple[int, int]:
        """Return STATE and LCM_STATE."""
        return int(self.vm(vm_id).state), int(self.vm(vm_id).lcm)

    def new(self, template: str = SMALL, session: str = ADMIN) -> int:
        """Create a pending VM."""
        return int(self.ok("one.vm.allocate", template, session=session))

    def running(self, template: str = SMALL, host: int = 0) -> int:
        """Create a running VM."""
        vm_id = self.new(template)
        self.ok("one.vm.deploy", vm_id, host)
        self.advance(5)
        assert self.state(vm_id) == (3, 3)
        return vm_id

    def path(self, vm_id: int, seconds: float = 10, step: float = 0.005) -> list[tuple[int, int]]:
        """Return the states that a VM passes through from now on."""
        seen = [self.state(vm_id)]
        for _ in range(round(seconds / step)):
            self.advance(step)
            if self.state(vm_id) != seen[-1]:
                seen.append(self.state(vm_id))
        return seen

    def charged(self) -> dict[int, tuple[int, int, int]]:
        """Return CPU, MiB and number of VMs allocated on each host with VMs."""
        return {
            host.id: (host.used_cpu, host.used_memory_kib // 1024, len(host.vms))
            for host in self.cloud.world.hosts
            if host.vms
        }

    def user(self, name: str, *groups: int) -> str:
        """Create a user and return its session."""
        groups_given = [list(groups)] if groups else []
        driver = ["core"] if groups else []
        self.ok("one.user.allocate", name, "pw", *driver, *groups_given)
        return f"{name}:pw"


def xml(text: str) -> etree._Element:
    """Parse the XML of an answer."""
    return etree.fromstring(text.encode())


def in_state(bench: Bench, state: tuple[int, int]) -> int:
    """Return a VM brought into a state in which it stays."""
    if state in {PENDING, HOLD}:
        vm_id = bench.new()
        if state == HOLD:
            bench.ok("one.vm.action", "hold", vm_id)
        return vm_id
    vm_id = bench.running()
    verbs = {STOPPED: "stop", SUSPENDED: "suspend", OFF: "poweroff", UNDEPLOYED: "undeploy",
             DONE: "terminate"}  # fmt: skip
    if state in verbs:
        bench.ok("one.vm.action", verbs[state], vm_id)
        bench.advance(5)
    assert bench.state(vm_id) == state
    return vm_id
