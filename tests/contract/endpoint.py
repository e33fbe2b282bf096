"""An endpoint of OpenNebula's XML-RPC, with the calls of the contract tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from lxml import etree

from tests.contract.ways import DONE, HOLD, OFF, PENDING, RUNNING, STOPPED, SUSPENDED, UNDEPLOYED

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from twisted.internet.defer import Deferred

    from merkatd.base.clock import Clock, Executor
    from merkatd.opennebula import Transport
    from tests.contract.drivers import Drivers
    from tests.opennebula.worlds import Drive

Result = TypeVar("Result")
State = tuple[int, int]

OURS = "contract-"
"""The prefix of the names of all objects that tests create."""

SMALL = "CPU=1\nMEMORY=512\n"
HOST_CPU, HOST_MIB = 800, 16384
"""The capacity of a host of the dummy driver."""

MONITORED = "2"

_WAYS = {STOPPED: "stop", SUSPENDED: "suspend", OFF: "poweroff", UNDEPLOYED: "undeploy",
         DONE: "terminate"}  # fmt: skip


@dataclass
class Endpoint:
    """A clean cloud behind a transport."""

    transport: Transport
    admin: str
    """The session of oneadmin."""
    drive: Drive
    clock: Clock
    executor: Executor
    drivers: Drivers | None
    """The hosts' drivers, if tests can make them fail."""
    address: str = ""
    """Its address over HTTP; empty in memory."""
    hosts: list[int] = field(default_factory=list)
    rules: list[int] = field(default_factory=list)
    """The rules of the access control list that tests have created."""

    # -- calls --------------------------------------------------------------------------------

    def run(self, running: Coroutine[Deferred[Any], Any, Result]) -> Result:
        """Return the result of the coroutine, or raise its exception."""
        return self.drive.run(running)

    def raw(self, method: str, *arguments: Any, session: str = "") -> list[Any]:
        """Return the whole answer to a call."""
        return self.run(self.transport.call(method, session or self.admin, *arguments))

    def ok(self, method: str, *arguments: Any, session: str = "") -> Any:
        """Return the value of a call that must succeed."""
        answer = self.raw(method, *arguments, session=session)
        assert answer[0] is True, answer
        assert answer[2] == 0
        return answer[1]

    def refused(self, method: str, *arguments: Any, session: str = "") -> tuple[int, str]:
        """Return the code and the text of a call that must fail."""
        answer = self.raw(method, *arguments, session=session)
        assert answer[0] is False, answer
        assert len(answer) == 5, answer
        assert answer[4] == -1
        return int(answer[2]), str(answer[1])

    def xml(self, method: str, *arguments: Any, session: str = "") -> etree._Element:
        """Return the XML of a call's answer."""
        return etree.fromstring(
            self.ok(method, *arguments, session=session).encode(), etree.XMLParser(recover=True)
        )

    def pool(self, method: str, *arguments: Any, session: str = "") -> dict[int, etree._Element]:
        """Return a pool's elements by id, in the pool's order."""
        root = self.xml(method, *arguments, session=session)
        return {int(row.findtext("ID") or ""): row for row in root if row.find("NAME") is not None}

    @property
    def version(self) -> tuple[int, int]:
        """Return the server's major and minor version."""
        major, minor, *_ = self.ok("one.system.version").split(".")
        return int(major), int(minor)

    # -- waiting ------------------------------------------------------------------------------

    def pause(self, seconds: float = 0.02) -> None:
        """Let a little time pass."""
        self.drive.wait(seconds)

    def until(self, look: Callable[[], Result | None], what: str, patience_s: float = 30) -> Result:
        """Return the first true result of `look`."""
        waited = 0.0
        while True:
            seen = look()
            if seen:
                return seen
            assert waited < patience_s, f"{what}: not within {patience_s} s"
            self.pause()
            waited += 0.02

    def reaches(self, vm: int, state: State) -> int:
        """Wait until a VM is in a state."""
        self.until(lambda: self.state(vm) == state, f"VM {vm} in {state}, not {self.state(vm)}")
        return vm

    def path(self, vm: int, end: State) -> list[State]:
        """Return the states that a VM shows until it is in its end state.

        The end state must differ from the present state. A short state may be missed.
        """
        seen = [self.state(vm)]
        for _ in range(3_000):
            if seen[-1] == end:
                return seen
            state = self.state(vm)
            if state != seen[-1]:
                seen.append(state)
            self.pause(0.003)
        raise AssertionError(seen)

    # -- VMs ----------------------------------------------------------------------------------

    def state(self, vm: int) -> State:
        """Return STATE and LCM_STATE."""
        shown = self.xml("one.vm.info", vm)
        return int(shown.findtext("STATE") or ""), int(shown.findtext("LCM_STATE") or "")

    def new(self, template: str = SMALL, session: str = "", *, hold: bool = False) -> int:
        """Create a VM, pending or held."""
        return int(self.ok("one.vm.allocate", template, hold, session=session))

    def running(self, host: int = 0, template: str = SMALL, session: str = "") -> int:
        """Create a VM that runs on the test host with this number."""
        vm = self.new(template, session)
        self.ok("one.vm.deploy", vm, self.hosts[host])
        return self.reaches(vm, RUNNING)

    def act(self, vm: int, action: str, end: State) -> int:
        """Carry out an action on a VM and wait until it is complete."""
        self.ok("one.vm.action", action, vm)
        return self.reaches(vm, end)

    def in_state(self, state: State) -> int:
        """Create a VM in a stable state; if that state has a host, it is the first."""
        if state in {PENDING, HOLD}:
            return self.new(hold=state == HOLD)
        vm = self.running()
        return self.act(vm, _WAYS[state], state) if state in _WAYS else vm

    # -- hosts --------------------------------------------------------------------------------

    def add_hosts(self, number: int) -> None:
        """Add this number of hosts and wait until they are monitored."""
        new = [
            int(self.ok("one.host.allocate", self.name(), "dummy", "dummy", -1))
            for _ in range(number)
        ]
        self.take_hosts(new)

    def take_hosts(self, hosts: Iterable[int]) -> None:
        """Add these hosts to the test hosts once they are monitored."""
        for host in hosts:
            self.hosts.append(host)
            self.until(
                lambda: self._monitored(host),  # noqa: B023
                f"host {host} monitored",
                patience_s=180,
            )

    def _monitored(self, host: int) -> bool:
        return self.xml("one.host.info", host).findtext("STATE") == MONITORED

    def share(self, host: int) -> dict[str, int]:
        """Return the numbers in HOST_SHARE of the test host with this number."""
        shown = self.xml("one.host.info", self.hosts[host])
        return {row.tag: int(row.text) for row in shown.iterfind("HOST_SHARE/*") if row.text}

    def charged(self) -> dict[int, tuple[int, int, int]]:
        """Return the charged CPU, MiB and VMs of each test host that has VMs."""
        capacity = {}
        for number in range(len(self.hosts)):
            share = self.share(number)
            if share["RUNNING_VMS"]:
                kib = share["MEM_USAGE"]
                capacity[number] = (share["CPU_USAGE"], kib // 1024, share["RUNNING_VMS"])
        return capacity

    # -- the rest -----------------------------------------------------------------------------

    def name(self) -> str:
        """Return a name that no object has or had, even in an earlier run."""
        return f"{OURS}{uuid4().hex}"

    def user(self, groups: Iterable[int] = (1,)) -> tuple[int, str]:
        """Create a user and return its id and session."""
        name = self.name()
        return int(self.ok("one.user.allocate", name, "pw", "core", list(groups))), f"{name}:pw"

    def allow(self, user: str, resource: int, rights: int) -> int:
        """Create a rule of the access control list; `user` is like `#7`, `@1` or `*`."""
        selector = {"#": 0x100000000, "@": 0x200000000, "*": 0x400000000}[user[0]]
        who = selector | int(user[1:] or 0)
        rule = int(self.ok("one.acl.addrule", f"{who:x}", f"{resource:x}", f"{rights:x}"))
        self.rules.append(rule)
        return rule
